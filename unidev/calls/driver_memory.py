"""A GPU's memory as its driver reports it, and the processes that hold it; read without CUDA."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from unidev.contract.backend import Unsupported
from unidev.hardware.facts import MemoryHolder
from unidev.hardware.nvml import ask_in_time, ask_nvml, import_nvml
from unidev.hardware.processes import describe_process

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unidev.contract.backend import Backend, Memory
    from unidev.contract.device import Device
    from unidev.hardware.facts import Gpu

_WAIT_S = 3.0


class DriverMemory(NamedTuple):
    """A GPU's memory as its driver reports it, in bytes, for all processes together."""

    used_bytes: int
    free_bytes: int
    total_bytes: int
    holders: tuple[MemoryHolder, ...]
    """The processes that hold it, largest first."""


def with_driver(memory: Memory, device: Device, backend: Backend) -> Memory:
    """``memory`` with the driver's count added, or ``memory`` itself if no driver reports one."""
    driver = driver_memory(device, backend)
    return memory if driver is None else memory.with_driver(driver)


def driver_memory(device: Device, backend: Backend) -> DriverMemory | None:
    """The memory that NVIDIA's driver reports; None for other devices, and where unknown."""
    gpu = driver_gpu(device, backend)
    return None if gpu is None else memory_of(gpu)


def driver_gpu(device: Device, backend: Backend) -> Gpu | None:
    """The card of a real GPU, as NVIDIA's driver has it; None if it is not NVIDIA's, or unknown."""
    if device.kind != "gpu" or device.is_simulated or not _is_cuda(backend):
        return None
    index = backend.hardware_index(device.kind, device.index)
    if index is None:
        return None
    driver = ask_in_time(lambda: ask_nvml(import_nvml(), describe_process), _WAIT_S)
    return gpu_meant(index, os.environ, driver.gpus)


def memory_of(gpu: Gpu) -> DriverMemory | None:
    """The memory of one GPU; None if the driver does not report it."""
    if gpu.used_bytes is None or gpu.total_bytes is None:
        return None
    holders = sorted(gpu.processes, key=lambda each: each.used_bytes or 0, reverse=True)
    return DriverMemory(
        gpu.used_bytes,
        gpu.total_bytes - gpu.used_bytes,
        gpu.total_bytes,
        tuple(MemoryHolder(each.pid, each.name, each.used_bytes) for each in holders),
    )


def gpu_meant(index: int, environment: Mapping[str, str], gpus: Sequence[Gpu]) -> Gpu | None:
    """The driver's GPU that CUDA calls ``index``; None if that is not certain.

    The driver orders GPUs by their place on the bus, CUDA by default the fastest first:
    https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#cuda-environment-variables
    On a partitioned (MIG) GPU a process has one partition, but the driver counts the entire GPU.
    """
    if any(gpu.mig_uuids for gpu in gpus):
        return None
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    entry = str(index)
    if visible is not None:
        entries = [each.strip() for each in visible.split(",")]
        if index >= len(entries):
            return None
        entry = entries[index]
    if entry.startswith("GPU-"):
        named = [gpu for gpu in gpus if gpu.uuid is not None and gpu.uuid.startswith(entry)]
        return named[0] if len(named) == 1 else None
    by_bus = environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    if not entry.isdigit() or not (by_bus or len({gpu.name for gpu in gpus}) == 1):
        return None
    # CUDA passes over GPUs that this process may not use, so after one the indexes differ.
    place = int(entry)
    return gpus[place] if place < len(gpus) and gpus[place].index == place else None


def _is_cuda(backend: Backend) -> bool:
    installation = backend.installation
    return not isinstance(installation, Unsupported) and installation.build().accelerator == "cuda"
