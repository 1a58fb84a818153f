"""Reductions over JAX's devices: JAX computes where the committed operands are."""

from __future__ import annotations

import math
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from unidev.contract import Collectives
from unidev.errors import UnsupportedOperation
from unidev_jax.arrays import value_of
from unidev_jax.copying import copied, wide
from unidev_jax.framework import jax, jnp
from unidev_jax.variables import assign, is_keras_variable, is_variable, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unidev.contract import Tensor


_OPERATIONS = {"sum": jnp.add, "min": jnp.minimum, "max": jnp.maximum}


class JaxCollectives(Collectives):
    """JAX's arrays are immutable: each step makes new ones.

    Packs are made and taken apart by one compiled program for each list of shapes, where single
    operations would be one for each shape.
    """

    def pack(self, tensors: Sequence[Tensor]) -> Tensor:
        """``jnp.concatenate``; a single flat one is copied, which a compiled program would not.

        Inside ``jax.grad``, of the values alone: gradients end here.
        """
        arrays = [value_of(x) for x in tensors]
        first = arrays[0]
        if len(arrays) == 1 and first.ndim == 1:
            return copied(first, first.device)
        with wide(first.dtype):
            return _packed(arrays)

    def unpack(self, flat: Tensor, shapes: Sequence[tuple[int, ...]]) -> Sequence[Tensor]:
        """Slices of ``flat``, which are copies."""
        with wide(flat.dtype):
            parts: Sequence[Tensor] = _unpacked(flat, tuple(map(tuple, shapes)))
            return parts

    def combine(self, a: Tensor, b: Tensor, op: str) -> Tensor:
        """``jnp.add``, ``jnp.minimum``, ``jnp.maximum``."""
        with wide(a.dtype):
            return _OPERATIONS[op](a, b)

    def scale(self, flat: Tensor, factor: float) -> Tensor:
        """``jnp.multiply``, by a number of the dtype of ``flat``."""
        with wide(flat.dtype):
            return jnp.multiply(flat, factor)

    def concatenate(self, tensors: Sequence[Tensor]) -> Tensor:
        """``jnp.concatenate``, which gives the array itself for a single one: that is copied."""
        arrays = [plain(x) for x in tensors]
        if len(arrays) == 1:
            return self.backend.copy_to(arrays[0], self.backend.device_of(arrays[0]), False)
        with wide(arrays[0].dtype):
            return jnp.concatenate(arrays)

    def rows(self, x: Tensor, start: int, stop: int) -> Tensor:
        """A dynamic slice: a static one would be compiled for each ``start``."""
        array = plain(x)
        with wide(array.dtype):
            return jax.lax.dynamic_slice_in_dim(array, start, max(stop - start, 0))

    def is_writable(self, x: Tensor) -> bool:
        """Flax's and Keras's variables are."""
        return is_variable(x)

    def write(self, targets: Sequence[Tensor], values: Sequence[Tensor]) -> None:
        """Gives each variable another array.

        Raises:
            UnsupportedOperation: an array outside of a variable would change.
        """
        for target, value in zip(targets, values, strict=True):
            if is_keras_variable(target):
                assign(target, value)
            elif is_variable(target):
                target.set_raw_value(value)
            elif np.asarray(target).tobytes() != np.asarray(value).tobytes():
                raise UnsupportedOperation(
                    "writing to an array",
                    "JAX's arrays are immutable, and this one is an attribute of a module that "
                    "has changed: put it into an nnx.Variable",
                )


@jax.jit  # type: ignore[untyped-decorator]  # JAX's types are partial
def _packed(arrays: Sequence[Tensor]) -> Tensor:
    return jnp.concatenate([array.ravel() for array in arrays])


def _take_apart(flat: Tensor, shapes: tuple[tuple[int, ...], ...]) -> list[Tensor]:
    ends = list(accumulate(math.prod(shape) for shape in shapes))
    return [
        flat[start:end].reshape(shape)
        for start, end, shape in zip([0, *ends], ends, shapes, strict=False)
    ]


_unpacked = jax.jit(_take_apart, static_argnums=1)
