"""``unidev.nn`` on JAX: its functions, for arrays and Flax's variables; layers are Flax modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unidev.contract import Functions, unsupported
from unidev_jax.nn import functions
from unidev_jax.variables import plain

if TYPE_CHECKING:
    from unidev.contract import Backend, Layers, Pair, Tensor


def make_layers(backend: Backend) -> Layers:
    """``JaxLayers``, which imports Flax, or the reason why layers are unsupported."""
    try:
        from unidev_jax.nn.layers import JaxLayers
    except ImportError as error:
        return unsupported(  # type: ignore[no-any-return]
            f"layers need Flax, which cannot be imported ({error}): pip install -U flax"
        )
    return JaxLayers(backend)


class JaxFunctions(Functions):
    """Those of ``functions``, which take arrays."""

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """``functions.linear``."""
        return functions.linear(plain(x), plain(weight), plain(bias))

    def conv2d(
        self, x: Tensor, weight: Tensor, bias: Tensor | None, stride: Pair, padding: Pair
    ) -> Tensor:
        """``functions.conv2d``."""
        return functions.conv2d(plain(x), plain(weight), plain(bias), stride, padding)

    def avg_pool2d(self, x: Tensor, kernel_size: Pair, stride: Pair) -> Tensor:
        """``functions.avg_pool2d``."""
        return functions.avg_pool2d(plain(x), kernel_size, stride)

    def max_pool2d(self, x: Tensor, kernel_size: Pair, stride: Pair) -> Tensor:
        """``functions.max_pool2d``."""
        return functions.max_pool2d(plain(x), kernel_size, stride)

    def flatten(self, x: Tensor) -> Tensor:
        """``functions.flatten``."""
        return functions.flatten(plain(x))

    def relu(self, x: Tensor) -> Tensor:
        """``functions.relu``."""
        return functions.relu(plain(x))

    def tanh(self, x: Tensor) -> Tensor:
        """``functions.tanh``."""
        return functions.tanh(plain(x))

    def softmax_cross_entropy(self, logits: Tensor, labels: Tensor) -> Tensor:
        """``functions.softmax_cross_entropy``."""
        return functions.softmax_cross_entropy(plain(logits), plain(labels))

    def mean_squared_error(self, predictions: Tensor, targets: Tensor) -> Tensor:
        """``functions.mean_squared_error``."""
        return functions.mean_squared_error(plain(predictions), plain(targets))
