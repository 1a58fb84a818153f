"""NumPy's memory for other frameworks, and theirs in arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from unidev.contract.dtypes import refuse_masked
from unidev.contract.interop import Interop
from unidev.errors import UnsupportedOperation

Array = np.ndarray[Any, Any]


class NumpyInterop(Interop):
    """Arrays of the host, also those of subclasses, which give their plain values."""

    keeps_read_only = True

    def export(self, x: Array) -> Array:
        """A plain array; NumPy itself refuses byte orders and strides that DLPack lacks."""
        if type(x) is not np.ndarray:
            refuse_masked(type(x))
            x = x.view(np.ndarray)
        flags = x.flags
        if flags.carray:  # in C order, aligned and writable
            return x
        if not flags.c_contiguous and any(stride < 0 for stride in x.strides):
            # torch.from_dlpack, for one, ends the process.
            raise UnsupportedOperation(
                "sharing an array", "it has a negative stride, which frameworks do not have"
            )
        if not flags.aligned:
            raise UnsupportedOperation(
                "sharing an array",
                "its elements are not aligned, and frameworks may crash on such addresses",
            )
        return x if flags.writeable else _writable(x)  # NumPy exports none that is read-only

    def adopt(self, exported: Any, is_read_only: bool) -> Array:
        """Writable where it may be: NumPy makes it read-only where it is not told (DLPack 0)."""
        made: Array = np.from_dlpack(exported)
        if is_read_only:
            made.flags.writeable = False
        elif not made.flags.writeable:
            return _writable(made)
        return made

    def is_immutable(self, x: Array) -> bool:
        """Whether it is read-only."""
        return not x.flags.writeable


class _Memory:
    """Memory that an array belongs to, as ``numpy.asarray`` takes it."""

    __slots__ = ("__array_interface__", "_owner")

    def __init__(self, interface: dict[str, Any], owner: Array) -> None:
        self.__array_interface__ = interface
        self._owner = owner


def _writable(x: Array) -> Array:
    """An array on the same memory that may be written to, and keeps ``x`` alive."""
    interface = x.__array_interface__
    interface["data"] = (interface["data"][0], False)
    return np.asarray(_Memory(interface, x))
