"""Images with their channels last, as TensorFlow computes them on a CPU, and the conversions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf  # type: ignore[import-untyped]

from unidev.errors import InvalidDataError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from unidev.contract import Pair, Tensor


def is_image(x: Tensor) -> bool:
    """Whether ``x`` has four axes.

    Raises:
        ValueError: its number of axes is unknown while it is traced.
    """
    rank = x.shape.rank
    if rank is None:
        raise ValueError(
            "the number of axes must be known while a graph is traced: give the "
            "tf.function an input_signature with shapes, or call x.set_shape(...)."
        )
    return bool(rank == 4)


def to_last(x: Tensor) -> Tensor:
    """NCHW to NHWC."""
    return tf.transpose(x, (0, 2, 3, 1))


def to_first(x: Tensor) -> Tensor:
    """NHWC to NCHW."""
    return tf.transpose(x, (0, 3, 1, 2))


def converted(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Call ``function``, which takes channels-last images, on channels-first ones."""
    y = function(to_last(x) if is_image(x) else x)
    return to_first(y) if is_image(y) else y


def flatten_last(x: Tensor) -> Tensor:
    """``(batch, rest)``, in channels-first order."""
    return flatten(to_first(x) if is_image(x) else x)


def flatten(x: Tensor) -> Tensor:
    """``(batch, rest)``."""
    sizes = x.shape[1:]
    rest = sizes.num_elements() if sizes.is_fully_defined() else -1
    # With the rest given, an empty batch can be reshaped, and a graph knows the result's shape.
    return tf.reshape(x, (tf.shape(x)[0] if rest == -1 or x.shape[0] is None else x.shape[0], rest))


def dense(x: Tensor, kernel: Tensor, bias: Tensor | None) -> Tensor:
    """``x @ kernel + bias`` on the last axis."""
    two = x.shape.rank == 2
    y = tf.matmul(x, kernel) if two else tf.tensordot(x, kernel, 1)
    if bias is None:
        return y
    return tf.nn.bias_add(y, bias) if two else y + bias


def conv2d_last(
    x: Tensor, kernel: Tensor, bias: Tensor | None, stride: Pair, padding: Pair
) -> Tensor:
    """Cross-correlation of NHWC images with an HWIO kernel."""
    height, width = padding
    edges: Any = "VALID"
    if height or width:
        edges = ((0, 0), (height, height), (width, width), (0, 0))
    y = tf.nn.conv2d(x, kernel, stride, edges)
    return y if bias is None else tf.nn.bias_add(y, bias)


def avg_pool2d_last(x: Tensor, kernel_size: Pair, stride: Pair) -> Tensor:
    """Means of complete windows of NHWC images."""
    return tf.nn.avg_pool2d(x, kernel_size, stride, "VALID")


def max_pool2d_last(x: Tensor, kernel_size: Pair, stride: Pair) -> Tensor:
    """Maxima of complete windows of NHWC images."""
    return tf.nn.max_pool2d(x, kernel_size, stride, "VALID")


def check_images(x: Tensor, channels: int | None = None) -> None:
    """Raise unless ``x`` is a batch of channels-last images with this many channels."""
    # With extra channels TensorFlow convolves in groups; with other axes it may end the process.
    if x.shape.rank != 4 or (None not in (channels, x.shape[-1]) and x.shape[-1] != channels):
        wanted = "channels" if channels is None else channels
        raise InvalidDataError(
            f"expected images of shape (batch, {wanted}, height, width), not {shape_outside(x)}."
        )


def check_window(x: Tensor, window: Sequence[int | None], edge: Pair = (0, 0)) -> None:
    """Raise unless ``window`` fits into the images ``x`` padded with zeros."""
    for size, needed, zeros in zip(x.shape[1:3], window, edge, strict=True):
        if size is not None and needed is not None and size + 2 * zeros < needed:
            raise InvalidDataError(
                f"a window of {tuple(window)} does not fit into images of shape {shape_outside(x)}."
            )


def shape_outside(x: Tensor) -> tuple[int | None, ...]:
    """The shape that the caller sees, channels first."""
    if not is_image(x):
        return tuple(x.shape)
    batch, height, width, channels = x.shape
    return batch, channels, height, width
