"""Allocating memory, and finding out how much there is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mxnet as mx  # type: ignore[import-untyped]

from unidev.contract import Memory, unsupported
from unidev.errors import UnsupportedOperation

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev.contract import Backend, Device

_NO_STATISTICS = "MXNet does not count what it has allocated on a CPU"


def allocate(make: Callable[..., Any], shape: tuple[int, ...], dtype: Any, context: Any) -> Any:
    """An array whose memory exists on return, unlike the results of MXNet's operators."""
    try:
        return make(shape, dtype=dtype, ctx=context)
    except mx.MXNetError as error:
        if "Failed to allocate" in str(error):  # on a CPU; CUDA's error has "out of memory" itself
            raise MemoryError(str(error).strip()) from error
        raise


def memory_of(backend: Backend) -> Any:
    """CUDA's report of a GPU's memory, with other processes' use; creates a CUDA context."""
    is_counted = backend.simulated_count == 0 and backend.device_count("gpu")
    return gpu_memory if is_counted else unsupported(_NO_STATISTICS)


def pinning_of(backend: Backend) -> Any:
    """Copies to MXNet's pinned context, if there is a GPU to pin for."""
    if backend.simulated_count or not backend.device_count("gpu"):
        return unsupported("it needs a GPU: MXNet pins memory only in a build for CUDA")
    pinned = mx.cpu_pinned()
    return lambda x: x if x.ctx == pinned else x.copyto(pinned)


def gpu_memory(device: Device) -> Memory:
    """CUDA's count."""
    if device.kind != "gpu":
        raise UnsupportedOperation("memory", _NO_STATISTICS)
    free, total = mx.context.gpu_memory_info(device.index)
    return Memory(total - free, free, total)
