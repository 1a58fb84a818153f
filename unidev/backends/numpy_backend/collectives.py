"""Reductions over NumPy's devices: on plain arrays, since one device's lie on it anyway."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.backends.numpy_backend.simulated_array import SimulatedArray
from unidev.contract.collectives import OperatorCollectives
from unidev.contract.dtypes import refuse_masked

if TYPE_CHECKING:
    from collections.abc import Sequence

    Array = np.ndarray[Any, Any]

_UFUNCS = {"sum": np.add, "min": np.minimum, "max": np.maximum}


class NumpyCollectives(OperatorCollectives):
    """Combines in place."""

    def combine(self, a: Array, b: Array, op: str) -> Array:
        """Writes to ``a``."""
        _UFUNCS[op](_plain(a), _plain(b), out=_plain(a))
        return a

    extreme = combine

    def scale(self, flat: Array, factor: float) -> Array:
        """Writes to ``flat``."""
        plain = _plain(flat)
        np.multiply(plain, plain.dtype.type(factor), out=plain)
        return flat

    def concatenate(self, tensors: Sequence[Array]) -> Array:
        """``numpy.concatenate``, which would give the machine's byte order to several."""
        dtype = tensors[0].dtype
        return _like(np.concatenate([_plain(x) for x in tensors], dtype=dtype), tensors[0])

    def is_writable(self, x: Array) -> bool:
        """By NumPy's flag; not if several elements are one (``as_strided``)."""
        is_expanded = any(s == 0 and n > 1 for s, n in zip(x.strides, x.shape, strict=True))
        return bool(x.flags.writeable) and not (is_expanded and x.size)

    def write(self, targets: Sequence[Array], values: Sequence[Array]) -> None:
        """``numpy.copyto``."""
        for target, value in zip(targets, values, strict=True):
            np.copyto(_plain(target), _plain(value))


def _plain(x: Array) -> Array:
    refuse_masked(type(x))
    return x.view(np.ndarray)


def _like(array: Array, x: Array) -> Array:
    """``array``, which is new, on the device of ``x``."""
    return SimulatedArray.place(array, x.simulated_device) if type(x) is SimulatedArray else array
