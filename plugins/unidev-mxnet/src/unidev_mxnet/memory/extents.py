"""The complete storage behind an array, which MXNet's C interface does not report.

It reports where a slice begins, not what it is a slice of. That is in the library's own
objects, declared in ``include/mxnet/ndarray.h`` and ``storage.h`` of the package:

    NDArray { shared_ptr<Chunk> ptr_; … }        a handle points to one
    Chunk { Handle shandle; vector<Handle> aux_handles; … }
    Handle { void* dptr; size_t size; Context ctx { int, int }; int shared_pid, shared_id; }

1.9.1 is upstream's last release, so this layout is final; it is read only in that version, and
only after a slice of known size gave the expected values.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import mxnet as mx  # type: ignore[import-untyped]

from unidev.contract import Extent
from unidev.errors import UnsupportedOperation
from unidev_mxnet.native_calls import data_address

_WORD = ctypes.sizeof(ctypes.c_void_p)


class _Handle(ctypes.Structure):
    _fields_ = (
        ("dptr", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("context", ctypes.c_int * 2),
        ("shared", ctypes.c_int * 2),
    )


def storage_extents(x: Any) -> list[Extent]:
    """The storage of ``x``: one extent, and one more for each index array of a sparse array.

    Waits until ``x`` is written. An array without elements has one of length 0.

    Raises:
        UnsupportedOperation: this is not MXNet 1.9.1 with the known layout.
    """
    if not _is_layout_known():
        raise UnsupportedOperation(
            "finding the memory of an array",
            f"MXNet {mx.__version__} stores it differently from 1.9.1, and reports of a slice only "
            "where it begins",
        )
    return _read(x)


def _read(x: Any) -> list[Extent]:
    data_address(x)  # waits; memory is allocated when the first operator writes to it
    chunk = _word_at(x.handle.value)
    vector = chunk + ctypes.sizeof(_Handle)
    first, end = _word_at(vector), _word_at(vector + _WORD)
    places = [chunk, *range(first, end, ctypes.sizeof(_Handle))]
    handles = [_Handle.from_address(place) for place in places]
    return [Extent(handle.dptr or 0, handle.size if handle.dptr else 0) for handle in handles]


@cache
def _is_layout_known() -> bool:
    if mx.__version__ != "1.9.1":
        return False
    whole = mx.nd.zeros((4, 3), ctx=mx.cpu(), dtype="float32")
    start = data_address(whole)
    return _read(whole[2:]) == [Extent(start, 48)] and data_address(whole[2:]) == start + 24


def _word_at(address: int) -> int:
    return ctypes.c_void_p.from_address(address).value or 0
