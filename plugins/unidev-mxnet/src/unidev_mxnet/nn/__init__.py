"""``unidev.nn`` on MXNet: its operators for ``mx.np.ndarray``; Gluon's layers are in ``layers``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import mxnet as mx  # type: ignore[import-untyped]
from mxnet import npx

from unidev.contract import Functions
from unidev_mxnet.native_calls import numpy_shapes

if TYPE_CHECKING:
    from unidev.contract import Pair, Tensor


class MxnetFunctions(Functions):
    """Accept legacy arrays as well; results are ``mx.np.ndarray``."""

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """``fully_connected`` on the last axis."""
        given = _numpy(x, weight) if bias is None else _numpy(x, weight, bias)
        with numpy_shapes():
            return npx.fully_connected(
                *given, num_hidden=weight.shape[0], no_bias=bias is None, flatten=False
            )

    def conv2d(
        self, x: Tensor, weight: Tensor, bias: Tensor | None, stride: Pair, padding: Pair
    ) -> Tensor:
        """``convolution``."""
        given = _numpy(x, weight) if bias is None else _numpy(x, weight, bias)
        outputs, _, *kernel = weight.shape
        with numpy_shapes():
            return npx.convolution(
                *given, kernel=tuple(kernel), stride=stride, pad=padding,
                num_filter=outputs, no_bias=bias is None,
            )  # fmt: skip

    def avg_pool2d(self, x: Tensor, kernel_size: Pair, stride: Pair) -> Tensor:
        """``pooling`` over complete windows."""
        return _pooled("avg", x, kernel_size, stride)

    def max_pool2d(self, x: Tensor, kernel_size: Pair, stride: Pair) -> Tensor:
        """As ``avg_pool2d``."""
        return _pooled("max", x, kernel_size, stride)

    def flatten(self, x: Tensor) -> Tensor:
        """``reshape``, with the size given: it cannot be inferred for an empty batch."""
        with numpy_shapes():
            (given,) = _numpy(x)
            return given.reshape(given.shape[0], math.prod(given.shape[1:]))

    def relu(self, x: Tensor) -> Tensor:
        """``relu``."""
        with numpy_shapes():
            return npx.relu(*_numpy(x))

    def tanh(self, x: Tensor) -> Tensor:
        """``tanh``."""
        with numpy_shapes():
            return mx.np.tanh(*_numpy(x))

    def softmax_cross_entropy(self, logits: Tensor, labels: Tensor) -> Tensor:
        """``log_softmax`` and ``pick``, which clips a label that is out of range."""
        with numpy_shapes():
            logits, labels = _numpy(logits, labels)
            # `pick` converts to the dtype of the labels, in which an int8 cannot count the classes.
            labels = labels.astype("int64", copy=False)
            return -npx.pick(npx.log_softmax(logits), labels).mean()

    def mean_squared_error(self, predictions: Tensor, targets: Tensor) -> Tensor:
        """The mean of squares."""
        with numpy_shapes():
            predictions, targets = _numpy(predictions, targets)
            return mx.np.square(predictions - targets).mean()


def _pooled(pool_type: str, x: Tensor, kernel_size: Pair, stride: Pair) -> Tensor:
    with numpy_shapes():
        return npx.pooling(
            *_numpy(x), kernel=kernel_size, stride=stride,
            pool_type=pool_type, pooling_convention="valid",
        )  # fmt: skip


def _numpy(*tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(x if isinstance(x, mx.np.ndarray) else x.as_np_ndarray() for x in tensors)
