"""MXNet's memory for other frameworks, and theirs in arrays."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import mxnet as mx  # type: ignore[import-untyped]
from mxnet.base import _LIB, check_call  # type: ignore[import-untyped]
from mxnet.ndarray.sparse import BaseSparseNDArray  # type: ignore[import-untyped]
from mxnet.numpy import ndarray  # type: ignore[import-untyped]

from unidev.contract import Exported, Interop
from unidev.errors import UnsupportedOperation
from unidev_mxnet.native_calls import numpy_shapes

if TYPE_CHECKING:
    from collections.abc import Collection

_CPU, _CUDA = 1, 2
"""DLPack's numbers."""

# By name, each a function of our own: MXNet sets the types of those that are attributes.
_get_pointer = ctypes.pythonapi["PyCapsule_GetPointer"]
_get_pointer.restype = ctypes.c_void_p
_get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_set_name = ctypes.pythonapi["PyCapsule_SetName"]
_set_name.argtypes = [ctypes.py_object, ctypes.c_char_p]
_set_destructor = ctypes.pythonapi["PyCapsule_SetDestructor"]
_set_destructor.argtypes = [ctypes.py_object, ctypes.c_void_p]
_FRESH, _USED = b"dltensor", b"used_dltensor"  # kept here: a capsule has the name's address


class _Tensor(ctypes.Structure):
    """The first parts of a DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("dtype", ctypes.c_uint8 * 4),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
    )


class MxnetInterop(Interop):
    """Dense arrays; ``mx.np.ndarray`` on others' memory.

    MXNet orders what it does itself, and nothing with what others do: ``synchronize`` before they
    read what it writes.
    """

    def dtypes(self) -> Collection[str]:
        """Without bool, which MXNet gives one bit, as no other framework does."""
        return [name for name in self.backend.dtypes if name != "bool"]

    def export(self, x: Any) -> Exported:
        """Waits for what reads ``x``, too: whoever takes it may write."""
        device = self.backend.device_of(x)
        if isinstance(x, BaseSparseNDArray):
            raise UnsupportedOperation("sharing an array", "a sparse one is several arrays")
        number = (_CPU, 0) if device.kind == "cpu" else (_CUDA, device.index)
        return Exported(lambda: _capsule(x), number)

    def adopt(self, exported: Any, is_read_only: bool) -> Any:  # noqa: ARG002  MXNet's operators write to any array
        """As ``mx.nd.from_dlpack``, of contiguous memory with elements in it."""
        try:
            return of_capsule(exported.__dlpack__())
        except mx.MXNetError as error:
            lines = str(error).strip().splitlines()
            raise UnsupportedOperation("sharing an array", f"MXNet: {lines[-1]}") from error


def _capsule(x: Any) -> Any:
    with numpy_shapes():
        return x.to_dlpack_for_write()


def of_capsule(capsule: Any) -> Any:
    """An ``mx.np.ndarray`` on the memory in a capsule of DLPack, as ``mx.nd.from_dlpack`` makes it.

    That one makes a legacy array first, and the copy of that as a new one takes as long again.
    Raises MXNetError for memory that MXNet does not take.
    """
    place = _get_pointer(capsule, _FRESH)
    tensor, handle = _Tensor.from_address(place), ctypes.c_void_p()
    arguments = ctypes.c_void_p(place), ctypes.c_bool(False), ctypes.byref(handle)
    if tensor.ndim and all(tensor.shape[: tensor.ndim]):
        check_call(_LIB.MXNDArrayFromDLPackEx(*arguments))
    else:
        with numpy_shapes():
            check_call(_LIB.MXNDArrayFromDLPackEx(*arguments))
    _set_name(capsule, _USED)
    _set_destructor(capsule, None)  # the array calls the deleter
    return ndarray(handle)
