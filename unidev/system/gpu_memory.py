"""A GPU's memory by NVIDIA's driver, or the host's; that of well-known cards, by their names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from unidev.system.host_memory import free_and_total
from unidev.system.wording import bytes_text

if TYPE_CHECKING:
    from unidev.system.facts import Gpu

_INTEGRATED = {
    "sm_32", "sm_53", "sm_62", "sm_72", "sm_87", "sm_101", "sm_110",  # Jetson, up to Thor
    "sm_121",  # GB10, as in DGX Spark
}  # fmt: skip
"""Architectures of which there are only GPUs that share the host's memory.

https://developer.nvidia.com/cuda-gpus. NVML has no such property, and to ask CUDA takes ``cuInit``,
after which a process can no longer fork.
"""
CARD_BYTES = {"H100": 80 << 30, "A100": 80 << 30, "L4": 24 << 30, "T4": 16 << 30}
"""Well-known cards by the words that ``unidev simulate --like`` takes.

As the data sheets have it; the driver keeps some of it for itself.
"""


class GpuMemory(NamedTuple):
    """Those facts of a ``Gpu``, all from one source."""

    used_bytes: int | None = None
    total_bytes: int | None = None
    shares_host_memory: bool = False


def read_memory(nvml: Any, handle: Any, gpu: Gpu) -> GpuMemory:
    """The memory of ``gpu``, a GPU or an instance (MIG), whose handle is given.

    Where NVML answers "not supported" (DGX Spark), or counts only the part of the host's memory
    that the firmware has set aside, both numbers are the host's.
    """
    try:
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    except nvml.NVMLError as error:
        if error.value in (nvml.NVML_ERROR_GPU_IS_LOST, nvml.NVML_ERROR_RESET_REQUIRED):
            raise
        if error.value != nvml.NVML_ERROR_NOT_SUPPORTED or gpu.parts or gpu.parent:
            return GpuMemory()
        return _of_host()
    if gpu.architecture in _INTEGRATED:
        return _of_host()
    return GpuMemory(int(memory.used), int(memory.total))


def free_text(gpu: Gpu) -> str | None:
    """``57 GiB of 119 GiB free, shared with the host``; None: unknown."""
    if gpu.used_bytes is None or not gpu.total_bytes:
        return "shares the host's memory" if gpu.shares_host_memory else None
    free = bytes_text(gpu.total_bytes - gpu.used_bytes)
    shared = ", shared with the host" if gpu.shares_host_memory else ""
    return f"{free} of {bytes_text(gpu.total_bytes)} free{shared}"


def _of_host() -> GpuMemory:
    free, total = free_and_total()
    if free is None or total is None:
        return GpuMemory(shares_host_memory=True)
    return GpuMemory(total - free, total, shares_host_memory=True)


def card_bytes(word: str) -> int:
    """The memory of the card that ``unidev simulate --like`` calls ``word``: ``H100``, in bytes."""
    return CARD_BYTES[word]
