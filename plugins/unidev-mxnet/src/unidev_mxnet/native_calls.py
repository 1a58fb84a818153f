"""Calls to MXNet's C library that its Python makes too slowly, or not at all.

The library is the one that MXNet has loaded. ``PyDLL`` keeps the interpreter's lock, which takes a
third of the time and is right for calls that neither wait nor compute.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from mxnet.base import _LIB, check_call  # type: ignore[import-untyped]
from mxnet.numpy import ndarray  # type: ignore[import-untyped]

_quick = ctypes.PyDLL(_LIB._name)

# No argtypes: checking arguments takes longer than the call, and all callers are in this plugin.
get_context = _quick["MXNDArrayGetContext"]
"""``(handle, byref(kind), byref(index))``; a non-zero result is an error. Never pass null."""
_is_numpy_shape = _quick["MXIsNumpyShape"]
_set_is_numpy_shape = _quick["MXSetIsNumpyShape"]


class ContextAnswer:
    """Receives the result of ``get_context``: two C ints, read as one number, which is atomic."""

    __slots__ = ("index", "kind", "word")

    def __init__(self) -> None:
        self.word = ctypes.c_longlong()
        self.kind = ctypes.byref(self.word)
        self.index = ctypes.byref(self.word, ctypes.sizeof(ctypes.c_int))


def split_answer(word: int) -> tuple[int, int]:
    """The kind and index stored in one ``word``, for either byte order."""
    kind, index = (ctypes.c_int * 2).from_buffer(ctypes.c_longlong(word))
    return kind, index


class numpy_shapes:  # noqa: N801  reads as the scope that it is
    """``with numpy_shapes():`` gives zero-dimensional and empty tensors their NumPy meaning.

    Without it, MXNet takes them for "unknown", and operators on them fail. The flag is per thread,
    and is restored afterwards. MXNet's own ``mx.util.np_shape`` would do, except that it calls
    ``logging.info``, which configures the program's root logger; it refuses to switch the flag off
    again inside ``np_array(True)``; and it overwrites a flag that is on for all threads.
    """

    __slots__ = ("_was_on",)

    def __enter__(self) -> None:
        was_on = ctypes.c_int()
        pointer = ctypes.byref(was_on)
        _is_numpy_shape(pointer)
        self._was_on = was_on.value
        if not self._was_on:
            _set_is_numpy_shape(1, pointer)

    def __exit__(self, *exc_info: object) -> None:
        if not self._was_on:
            _set_is_numpy_shape(0, ctypes.byref(ctypes.c_int()))


def reshaped(x: Any, shape: tuple[int, ...]) -> Any:
    """A view of ``x``, as ``mx.np.ndarray``; ``reshape`` takes five times as long.

    Autograd does not record it.
    """
    handle = ctypes.c_void_p()
    sizes = (ctypes.c_int64 * len(shape))(*shape)
    arguments = x.handle, len(shape), sizes, ctypes.c_bool(False), ctypes.byref(handle)
    check_call(_LIB.MXNDArrayReshape64(*arguments))
    return ndarray(handle)


def data_address(x: Any) -> int:
    """The address of the first element of ``x``, or 0 if empty; waits until it is written.

    Converts a tensor that oneDNN keeps in its own layout to the usual one, as ``asnumpy``
    does.
    """
    x.wait_to_read()
    address = ctypes.c_void_p()
    check_call(_LIB.MXNDArrayGetData(x.handle, ctypes.byref(address)))
    return address.value or 0


def host_view(x: Any) -> np.ndarray[Any, Any]:
    """A view of the elements of ``x``, non-empty, dense and on the host: no copy. Waits."""
    dtype = np.dtype(x.dtype)
    memory = (ctypes.c_char * (x.size * dtype.itemsize)).from_address(data_address(x))
    memory.owner = x  # the array keeps ``memory`` alive, and that keeps x alive
    return np.frombuffer(memory, dtype).reshape(x.shape)
