"""Reductions over TensorFlow's devices, each operation in the scope of its tensors' device."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import tensorflow as tf  # type: ignore[import-untyped]

from unidev.contract import Collectives
from unidev.errors import UnsupportedOperation
from unidev_tensorflow.models.swap import native_variable
from unidev_tensorflow.tensors import DISTRIBUTED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unidev.contract import Tensor


_OPERATIONS = {"sum": tf.add, "min": tf.minimum, "max": tf.maximum}


def _dense(x: Tensor) -> Tensor:
    """A tensor or TensorFlow's own variable.

    Slices are refused, which TensorFlow's operations would make dense without a word.
    """
    if isinstance(x, tf.IndexedSlices):
        raise UnsupportedOperation(
            "packing a tf.IndexedSlices", "use tf.convert_to_tensor(x) first, which makes it dense"
        )
    return native_variable(x)


class TensorFlowCollectives(Collectives):
    """TensorFlow's tensors are immutable: each step makes new ones."""

    def pack(self, tensors: Sequence[Tensor]) -> Tensor:
        """``tf.concat``, which gives the tensor itself for a single one: that is copied."""
        with self._scope(tensors[0]):
            values = map(_dense, tensors)
            flat = [x if x.shape.rank == 1 else _reshaped(x, (-1,)) for x in values]
            return tf.raw_ops.DeepCopy(x=flat[0]) if len(flat) == 1 else tf.concat(flat, 0)

    def unpack(self, flat: Tensor, shapes: Sequence[tuple[int, ...]]) -> Sequence[Tensor]:
        """``tf.split``, whose results may be parts of ``flat``."""
        with self._scope(flat):
            parts = tf.split(flat, [math.prod(shape) for shape in shapes])
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
            return tf.concat([_dense(x) for x in tensors], 0)

    def rows(self, x: Tensor, start: int, stop: int) -> Tensor:
        """A slice."""
        with self._scope(x):
            return x[start:stop]

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
