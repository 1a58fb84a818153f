"""Paddle's own functions of neural networks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unidev.contract import Functions
from unidev_paddle.importing import import_paddle

if TYPE_CHECKING:
    Tensor = Any
    Pair = tuple[int, int]

paddle: Any = import_paddle()
own: Any = paddle.nn.functional


_NO_LABEL = -(2**31)


class PaddleFunctions(Functions):
    """``paddle.nn.functional``, whose results follow their operands."""

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Paddle's own has the weight the other way round."""
        product = paddle.matmul(x, weight, transpose_y=True)
        return product if bias is None else product + bias

    def conv2d(
        self, x: Tensor, weight: Tensor, bias: Tensor | None, stride: Pair, padding: Pair
    ) -> Tensor:
        """Channels first is Paddle's own."""
        return own.conv2d(x, weight, bias, list(stride), list(padding))

    def avg_pool2d(self, x: Tensor, kernel_size: Pair, stride: Pair) -> Tensor:
        """Without padding, whole windows."""
        return own.avg_pool2d(x, list(kernel_size), list(stride))

    def relu(self, x: Tensor) -> Tensor:
        """``relu``."""
        return own.relu(x)

    def tanh(self, x: Tensor) -> Tensor:
        """``tanh``."""
        return paddle.tanh(x)

    def softmax_cross_entropy(self, logits: Tensor, labels: Tensor) -> Tensor:
        """``cross_entropy``, to which every label is one: by default -100 counts as no loss."""
        return own.cross_entropy(logits, labels, ignore_index=_NO_LABEL)

    def mean_squared_error(self, predictions: Tensor, targets: Tensor) -> Tensor:
        """``mse_loss``."""
        return own.mse_loss(predictions, targets)
