"""``unidev.nn`` on Paddle: its own functions; its layers are in ``layers``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from unidev.contract import Functions
from unidev_paddle.framework import paddle

if TYPE_CHECKING:
    from unidev.contract import Tensor

own: Any = paddle.nn.functional


class PaddleFunctions(Functions):
    """``paddle.nn.functional``, whose results are on the device of their operands."""

    conv2d = staticmethod(own.conv2d)
    avg_pool2d = staticmethod(own.avg_pool2d)
    max_pool2d = staticmethod(own.max_pool2d)
    flatten = staticmethod(partial(paddle.flatten, start_axis=1))
    relu = staticmethod(own.relu)
    tanh = staticmethod(paddle.tanh)
    mean_squared_error = staticmethod(own.mse_loss)

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Paddle's own, with the weight transposed."""
        product = paddle.matmul(x, weight, transpose_y=True)
        return product if bias is None else product + bias

    def softmax_cross_entropy(self, logits: Tensor, labels: Tensor) -> Tensor:
        """``cross_entropy``, which by default ignores -100: every label counts here."""
        if labels.dtype != paddle.int64:
            labels = paddle.cast(labels, "int64")
        return own.cross_entropy(logits, labels, ignore_index=-(2**31))
