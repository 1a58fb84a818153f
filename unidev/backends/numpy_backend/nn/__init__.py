"""``unidev.nn`` in plain NumPy: the functions, forward only; the layers are in ``layers``.

They work on plain and simulated arrays: every step keeps a simulated array's device, so the result
is on the device of the operands, and operands on two devices are refused.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from unidev.contract.layers import Functions
from unidev.errors import InvalidDataError

if TYPE_CHECKING:
    from unidev.contract.layers import Array, Pair


def linear(x: Array, weight: Array, bias: Array | None) -> Array:
    """``x @ weight.T + bias``."""
    if x.ndim < 1 or weight.ndim != 2 or x.shape[-1] != weight.shape[1]:
        raise InvalidDataError(
            f"a weight of shape {weight.shape}, (outputs, inputs), does not match an x of shape "
            f"{x.shape}, (…, inputs)."
        )
    product: Array = x @ weight.T
    return product if bias is None else product + bias


def conv2d(x: Array, weight: Array, bias: Array | None, stride: Pair, padding: Pair) -> Array:
    """Every window of the images times every kernel, as one matrix product."""
    if x.ndim != 4 or weight.ndim != 4 or x.shape[1] != weight.shape[1]:
        raise InvalidDataError(
            f"a weight of shape {weight.shape}, (out, in, height, width), does not match images of "
            f"shape {x.shape}, (batch, in, height, width)."
        )
    down, right = padding
    padded = np.pad(x, ((0, 0), (0, 0), (down, down), (right, right)))
    windows = windows_of(padded, (weight.shape[2], weight.shape[3]), stride)
    outputs = np.tensordot(windows, weight, ((1, 4, 5), (1, 2, 3)))
    images = np.moveaxis(outputs, 3, 1)
    return images if bias is None else images + bias[:, None, None]


def avg_pool2d(x: Array, kernel_size: Pair, stride: Pair) -> Array:
    """The mean of each window."""
    means: Array = windows_of(x, kernel_size, stride).mean((4, 5))
    return means


def max_pool2d(x: Array, kernel_size: Pair, stride: Pair) -> Array:
    """The maximum of each window."""
    maxima: Array = windows_of(x, kernel_size, stride).max((4, 5))
    return maxima


def flatten(x: Array) -> Array:
    """``(batch, rest)``."""
    # Not reshape(n, -1), which cannot infer the size for an empty batch.
    return x.reshape(x.shape[0], math.prod(x.shape[1:]))


def windows_of(x: Array, kernel_size: Pair, stride: Pair) -> Array:
    """A view of ``x``: ``(batch, channels, rows, columns, height, width)``, complete windows."""
    if x.ndim != 4 or x.shape[2] < kernel_size[0] or x.shape[3] < kernel_size[1]:
        raise InvalidDataError(
            f"a window of {kernel_size[0]} by {kernel_size[1]} does not fit images of shape "
            f"{x.shape}, (batch, channels, height, width)."
        )
    windows = np.lib.stride_tricks.sliding_window_view(x, kernel_size, (2, 3))
    chosen: Array = windows[:, :, :: stride[0], :: stride[1]]
    return chosen


def relu(x: Array) -> Array:
    """``max(x, 0)``, in the dtype of ``x``."""
    larger: Array = np.maximum(x, x.dtype.type(0))
    return larger


def softmax_cross_entropy(logits: Array, labels: Array) -> Array:
    """Shifted by the largest logit, so that ``exp`` cannot overflow."""
    _check_labels(labels, logits.shape[1])
    shifted = logits - logits.max(1, keepdims=True)
    normaliser = np.log(np.exp(shifted).sum(1, keepdims=True))
    chosen = np.take_along_axis(shifted - normaliser, labels[:, None].astype("int64"), 1)
    return np.asanyarray(-chosen.mean())  # NumPy's scalars are not tensors


def mean_squared_error(predictions: Array, targets: Array) -> Array:
    """The mean of the squares."""
    return np.asanyarray(np.square(predictions - targets).mean())


def _check_labels(labels: Array, classes: int) -> None:
    # NumPy would silently count negative ones from the end.
    if labels.size and not (labels.min() >= 0 and labels.max() < classes):
        raise InvalidDataError(
            f"labels for {classes} classes must be from 0 to {classes - 1}; these range from "
            f"{labels.min()} to {labels.max()}."
        )


class NumpyFunctions(Functions):
    """Forward only: NumPy has no autograd."""

    linear = staticmethod(linear)
    conv2d = staticmethod(conv2d)
    avg_pool2d = staticmethod(avg_pool2d)
    max_pool2d = staticmethod(max_pool2d)
    flatten = staticmethod(flatten)
    relu = staticmethod(relu)
    tanh = staticmethod(np.tanh)
    softmax_cross_entropy = staticmethod(softmax_cross_entropy)
    mean_squared_error = staticmethod(mean_squared_error)
