"""Allocating memory, and finding out how much there is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mxnet as mx  # type: ignore[import-untyped]

from unidev import Memory, UnsupportedOperation

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev import Device

NO_CPU_STATISTICS = "MXNet does not count what it has allocated on a CPU"


def allocate(make: Callable[..., Any], shape: tuple[int, ...], dtype: Any, context: Any) -> Any:
    """An array whose memory exists on return, unlike the results of MXNet's operators."""
    try:
        return make(shape, dtype=dtype, ctx=context)
    except mx.MXNetError as error:
        if "Failed to allocate" in str(error):  # on a CPU; CUDA's error has "out of memory" itself
            raise MemoryError(str(error).strip()) from error
        raise


def gpu_memory(device: Device) -> Memory:
    """CUDA's count."""
    if device.kind != "gpu":
        raise UnsupportedOperation("memory", NO_CPU_STATISTICS)
    free, total = mx.context.gpu_memory_info(device.index)
    return Memory(total - free, free, total)
