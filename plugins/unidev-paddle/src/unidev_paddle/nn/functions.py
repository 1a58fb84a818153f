"""Paddle's own neural-network functions."""

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
    """``paddle.nn.functional``, whose results are on the device of their operands."""

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Paddle's own, with the weight transposed."""
        product = paddle.matmul(x, weight, transpose_y=True)
        return product if bias is None else product + bias

    def conv2d(
        self, x: Tensor, weight: Tensor, bias: Tensor | None, stride: Pair, padding: Pair
    ) -> Tensor:
        """Channels first is Paddle's default layout."""
        return own.conv2d(x, weight, bias, list(stride), list(padding))

    def avg_pool2d(self, x: Tensor, kernel_size: Pair, stride: Pair) -> Tensor:
        """Without padding: complete windows only."""
        return own.avg_pool2d(x, list(kernel_size), list(stride))

    def relu(self, x: Tensor) -> Tensor:
        """``relu``."""
        return own.relu(x)

    def tanh(self, x: Tensor) -> Tensor:
        """``tanh``."""
        return paddle.tanh(x)

    def softmax_cross_entropy(self, logits: Tensor, labels: Tensor) -> Tensor:
        """``cross_entropy`` with every label counted: by default it ignores -100."""
        return own.cross_entropy(logits, labels, ignore_index=_NO_LABEL)

    def mean_squared_error(self, predictions: Tensor, targets: Tensor) -> Tensor:
        """``mse_loss``."""
        return own.mse_loss(predictions, targets)
