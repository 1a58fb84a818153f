"""``unidev.nn`` on Paddle: its own functions; its layers are in ``layers``."""

from __future__ import annotations

from functools import partial, wraps
from typing import TYPE_CHECKING, Any

from unidev.contract import Functions
from unidev_paddle.framework import not_dense, paddle

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev.contract import Tensor

own: Any = paddle.nn.functional


def _not_of_rows(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Without SelectedRows, such as a sparse gradient: Paddle's kernels take one for dense.

    They read its shape out of other memory: most often an error, at times the process's end.
    """

    @wraps(function)
    def checked(*xs: Any, **options: Any) -> Tensor:
        for x in xs:
            if isinstance(x, paddle.Tensor) and x.is_selected_rows():
                raise not_dense(x)
        return function(*xs, **options)

    return checked


_matmul = _not_of_rows(paddle.matmul)
_cross_entropy = _not_of_rows(own.cross_entropy)


class PaddleFunctions(Functions):
    """``paddle.nn.functional``, whose results are on the device of their operands."""

    conv2d = staticmethod(own.conv2d)
    avg_pool2d = staticmethod(own.avg_pool2d)
    max_pool2d = staticmethod(own.max_pool2d)
    flatten = staticmethod(_not_of_rows(partial(paddle.flatten, start_axis=1)))
    relu = staticmethod(_not_of_rows(own.relu))
    tanh = staticmethod(_not_of_rows(paddle.tanh))
    mean_squared_error = staticmethod(_not_of_rows(own.mse_loss))

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Paddle's own, with the weight transposed."""
        product = _matmul(x, weight, transpose_y=True)
        return product if bias is None else product + bias

    def softmax_cross_entropy(self, logits: Tensor, labels: Tensor) -> Tensor:
        """``cross_entropy``, which by default ignores -100: every label counts here."""
        if labels.dtype != paddle.int64:
            labels = paddle.cast(labels, "int64")
        return _cross_entropy(logits, labels, ignore_index=-(2**31))
