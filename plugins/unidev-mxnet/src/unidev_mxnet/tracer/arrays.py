"""Arrays by the handles that MXNet's C functions are given."""

from __future__ import annotations

from ctypes import c_void_p
from typing import TYPE_CHECKING, Any

import mxnet as mx  # type: ignore[import-untyped]
import numpy as np
from mxnet.ndarray.sparse import BaseSparseNDArray  # type: ignore[import-untyped]

from unidev.errors import UnidevError
from unidev_mxnet.native_calls import ContextAnswer, get_context

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unidev.contract import Backend, Device


class Borrowed(mx.nd.NDArray):  # type: ignore[misc]  # MXNet is untyped
    """An array on a handle that another array owns."""

    __slots__ = ()

    def __init__(self, handle: int | c_void_p) -> None:
        super().__init__(handle if isinstance(handle, c_void_p) else c_void_p(handle))

    def __del__(self) -> None:
        """Does nothing: MXNet's own would free the handle."""


class _BorrowedSparse(BaseSparseNDArray):  # type: ignore[misc]  # as above
    __slots__ = ()

    def __del__(self) -> None:
        """As above."""


def are_together(handles: Sequence[int | None]) -> bool:
    """Whether all arrays are in one context; a hot path, on every operator."""
    answer = ContextAnswer()
    first = None
    for handle in handles:
        if handle is None:
            continue
        get_context(c_void_p(handle), answer.kind, answer.index)
        if first is None:
            first = answer.word.value
        elif answer.word.value != first:
            return False
    return True


def device_at(handle: int | c_void_p | None, backend: Backend) -> Device | None:
    """Where an array is; None if it has no memory yet."""
    if not handle:
        return None
    try:
        return backend.device_of(Borrowed(handle))
    except UnidevError:
        return None


def are_apart(source: Device, target: Device) -> bool:
    """False for two indices of the CPU: without simulation they share one memory."""
    return source is not target and not source.kind == target.kind == "cpu"


def size_at(handle: int | c_void_p) -> tuple[tuple[int, ...] | None, int]:
    """The shape of an array, and its bytes; for a sparse one, of its values and indices.

    The sizes of a sparse array are known only once it is computed, so this waits for it.
    """
    array = Borrowed(handle)
    shape = array.shape
    if shape is None:
        return None, 0
    if array.stype == "default":
        return shape, _nbytes(array)
    sparse = _BorrowedSparse(array.handle)
    parts = [sparse._data(), *map(sparse._aux_data, range(sparse._num_aux))]
    return shape, sum(map(_nbytes, parts))


def _nbytes(array: Any) -> int:
    return int(array.size) * np.dtype(array.dtype).itemsize
