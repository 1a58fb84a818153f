"""A GPU's memory as its driver reports it, and the processes that hold it; read without CUDA."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from unidev.contract.backend import Unsupported
from unidev.contract.memory import DriverMemory
from unidev.system.host_memory import free_and_total
from unidev.system.nvml import ask_in_time, ask_nvml, import_nvml
from unidev.system.processes import describe_process
from unidev.values import MemoryHolder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unidev.contract.backend import Backend, Memory
    from unidev.device import Device
    from unidev.system.facts import Gpu

_WAIT_S = 3.0


def with_driver(memory: Memory, device: Device, backend: Backend) -> Memory:
    """``memory`` with the driver's count, if any; the host's, of a GPU that shares it."""
    gpu = driver_gpu(device, backend)
    if shares_host_memory(gpu, device, backend):
        free, total = free_and_total()
        return memory if free is None or total is None else memory.of_host(free, total)
    driver = None if gpu is None else memory_of(gpu)
    return memory if driver is None else memory.with_driver(driver)


def shares_host_memory(gpu: Gpu | None, device: Device, backend: Backend) -> bool:
    """Whether a real GPU has no memory of its own, by its driver or its framework."""
    return (gpu is not None and gpu.shares_host_memory) or backend.shares_host_memory(device)


def driver_gpu(device: Device, backend: Backend) -> Gpu | None:
    """The card of a real GPU, as NVIDIA's driver has it; None if it is not NVIDIA's, or unknown."""
    return driver_gpus([device], backend)[0]


def driver_gpus(devices: Sequence[Device], backend: Backend) -> list[Gpu | None]:
    """The card of each device, by one query of the driver; none is made if none can be known."""
    indexes = [_cuda_index(each, backend) for each in devices]
    if all(index is None for index in indexes):
        return [None] * len(indexes)
    gpus = ask_in_time(lambda: ask_nvml(import_nvml(), describe_process), _WAIT_S).gpus
    return [None if index is None else gpu_meant(index, os.environ, gpus) for index in indexes]


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
        gpu.parent,
    )


def gpu_meant(index: int, environment: Mapping[str, str], gpus: Sequence[Gpu]) -> Gpu | None:
    """The driver's GPU that CUDA calls ``index``; None if that is not certain.

    The driver orders GPUs by their place on the bus, CUDA by default the fastest first:
    https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#cuda-environment-variables
    Where GPUs are divided (MIG), a process has one instance, as ``gpu:0``: the one that the
    variable names, or the only one.
    https://docs.nvidia.com/datacenter/tesla/mig-user-guide/index.html#cuda-visible-devices
    """
    parts = [part for gpu in gpus for part in gpu.parts]
    if parts and index:
        return None
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    entry = str(index)
    if visible is not None:
        entries = [each.strip() for each in visible.split(",")]
        if index >= len(entries):
            return None
        entry = entries[index]
    if entry.startswith(("GPU-", "MIG-")):
        named = [
            gpu
            for gpu in (*gpus, *parts)
            if gpu.uuid is not None and gpu.uuid.startswith(entry) and not gpu.parts
        ]
        return named[0] if len(named) == 1 else None
    if parts:
        return parts[0] if len(parts) == len(gpus) == 1 and entry == "0" else None
    by_bus = environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    if not entry.isdigit() or not (by_bus or len({gpu.name for gpu in gpus}) == 1):
        return None
    # CUDA passes over GPUs that this process may not use, so after one the indexes differ.
    place = int(entry)
    return gpus[place] if place < len(gpus) and gpus[place].index == place else None


def _cuda_index(device: Device, backend: Backend) -> int | None:
    if device.kind != "gpu" or device.is_simulated:
        return None
    installation = backend.installation
    if isinstance(installation, Unsupported) or installation.accelerator() != "cuda":
        return None
    return backend.hardware_index(device.kind, device.index)
