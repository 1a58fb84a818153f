"""Reductions over TensorFlow's devices, each operation in the scope of its tensors' device."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import tensorflow as tf  # type: ignore[import-untyped]

from unidev.contract import Collectives
from unidev.errors import UnsupportedOperation
from unidev_tensorflow.models.swap import native_variable
from unidev_tensorflow.tensors import COMPOSITES, DISTRIBUTED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unidev.contract import Tensor


_OPERATIONS = {"sum": tf.add, "min": tf.minimum, "max": tf.maximum}


_MOST_AT_ONCE = 256
"""For each other number of tensors TensorFlow prepares a kernel anew, which takes the square of it:
0.03 s for 1,600, and 2 s for 25,600 (2.21)."""
_HAVE_ROWS = (tf.RaggedTensor, tf.SparseTensor)
"""Composite tensors that TensorFlow slices and concatenates."""
_DENSE = {tf.RaggedTensor: "x.to_tensor()", tf.SparseTensor: "tf.sparse.to_dense(x)"}


def _concat(tensors: Sequence[Tensor]) -> Tensor:
    while len(tensors) > _MOST_AT_ONCE:
        tensors = [tf.concat(piece, 0) for piece in _pieces(tensors)]
    return tf.concat(tensors, 0)


def _split(flat: Tensor, sizes: Sequence[int]) -> Sequence[Tensor]:
    if len(sizes) <= _MOST_AT_ONCE:
        return tf.split(flat, sizes)  # type: ignore[no-any-return]
    pieces = _pieces(sizes)
    wholes = zip(_split(flat, [sum(piece) for piece in pieces]), pieces, strict=True)
    return [part for whole, piece in wholes for part in tf.split(whole, piece)]


def _pieces(of: Sequence[Any]) -> Sequence[Sequence[Any]]:
    return [of[at : at + _MOST_AT_ONCE] for at in range(0, len(of), _MOST_AT_ONCE)]


class TensorFlowCollectives(Collectives):
    """TensorFlow's tensors are immutable: each step makes new ones."""

    def pack(self, tensors: Sequence[Tensor]) -> Tensor:
        """``tf.concat``, which gives the tensor itself for a single one: that is copied."""
        with self._scope(tensors[0]):
            values = map(native_variable, tensors)
            flat = [x if x.shape.rank == 1 else _reshaped(x, (-1,)) for x in values]
            return tf.raw_ops.DeepCopy(x=flat[0]) if len(flat) == 1 else _concat(flat)

    def unpack(self, flat: Tensor, shapes: Sequence[tuple[int, ...]]) -> Sequence[Tensor]:
        """``tf.split``, whose results may be parts of ``flat``."""
        with self._scope(flat):
            parts = _split(flat, [math.prod(shape) for shape in shapes])
            return [
                part if len(shape) == 1 else _reshaped(part, shape)
                for part, shape in zip(parts, shapes, strict=True)
            ]

    def combine(self, a: Tensor, b: Tensor, op: str) -> Tensor:
        """``tf.add``, ``tf.minimum``, ``tf.maximum``."""
        with self._scope(a):
            return _OPERATIONS[op](a, b)

    def scale(self, flat: Tensor, factor: float) -> Tensor:
        """``tf.multiply``."""
        with self._scope(flat):
            return tf.multiply(flat, factor)

    def concatenate(self, tensors: Sequence[Tensor]) -> Tensor:
        """``tf.concat``."""
        with self._scope(tensors[0]):
            if isinstance(tensors[0], tf.SparseTensor):
                return tf.sparse.concat(0, list(tensors))
            return tf.concat([native_variable(x) for x in tensors], 0)

    def rows(self, x: Tensor, start: int, stop: int) -> Tensor:
        """A slice."""
        with self._scope(x):
            if isinstance(x, tf.SparseTensor):
                sizes = [stop - start, *x.shape[1:]]
                return tf.sparse.slice(x, [start, *[0] * len(x.shape[1:])], sizes)
            return x[start:stop]

    def check_dense(self, tensors: Sequence[Tensor], is_packed: bool) -> None:
        """Slices are refused, too, which TensorFlow's operations would make dense without a word.

        Raises:
            UnsupportedOperation: a composite tensor cannot be packed, or has no rows.
        """
        for x in tensors:
            if isinstance(x, COMPOSITES) and (is_packed or not isinstance(x, _HAVE_ROWS)):
                way = _DENSE.get(type(x), "tf.convert_to_tensor(x)")
                raise UnsupportedOperation(
                    f"this, for a {type(x).__name__},", f"use {way} first, which makes it dense"
                )

    def is_writable(self, x: Tensor) -> bool:
        """Variables are, unless a strategy distributes them."""
        variable = native_variable(x)
        return isinstance(variable, tf.Variable) and not isinstance(variable, DISTRIBUTED)

    def write(self, targets: Sequence[Tensor], values: Sequence[Tensor]) -> None:
        """``assign``, which keeps the memory of the value."""
        with tf.init_scope():
            for target, value in zip(targets, values, strict=True):
                variable = native_variable(target)
                with tf.device(variable.device):
                    variable.assign(value, read_value=False)

    def _scope(self, x: Tensor) -> Any:
        return self.backend.native_scope(self.backend.device_of(x))


def _reshaped(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    # tf.reshape would make a tensor of the shape each time, which takes six times as long.
    return tf.raw_ops.Reshape(tensor=x, shape=_shape_tensor(shape))


@lru_cache(maxsize=4096)
def _shape_tensor(shape: tuple[int, ...]) -> Tensor:
    with tf.device("CPU:0"):
        return tf.constant(shape, tf.int32)
