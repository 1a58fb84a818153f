"""Memory of devices: its size, Paddle's statistics of its use, and pinning."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from unidev.contract import Memory, PeakCounter, unsupported
from unidev.errors import UnsupportedOperation
from unidev_paddle import simulator
from unidev_paddle.framework import core, paddle

if TYPE_CHECKING:
    from unidev.contract import Backend, Device
    from unidev_paddle.devices import Accelerator


def of_cpu() -> Memory:
    """The host's memory: in use by Paddle's tensors, free, and in total."""
    return _of_host(core.host_memory_stat_current_value("Allocated", 0))


def of_simulated(index: int) -> Memory:
    """The host's memory too, which backs simulated GPUs."""
    return _of_host(simulator.allocated_bytes(index))


def of_real(accelerator: Accelerator) -> Memory:
    """In use by Paddle's tensors; free and total, as the vendor's driver counts them."""
    index = accelerator.device_id
    if accelerator.device_type == "gpu":
        if not hasattr(paddle.cuda, "mem_get_info"):
            raise UnsupportedOperation(
                "memory",
                f"this Paddle reports what it uses on {accelerator}, but not what is free; "
                "Paddle 3.3 reports both",
            )
        free, total = paddle.cuda.mem_get_info(index)
        return Memory(int(paddle.device.cuda.memory_allocated(index)), int(free), int(total))
    if accelerator.device_type == "xpu":
        xpu = paddle.device.xpu
        total = int(xpu.memory_total(index))
        return Memory(int(xpu.memory_allocated(index)), total - int(xpu.memory_used(index)), total)
    raise UnsupportedOperation(
        "memory", f"Paddle reports what is in use on {accelerator}, but not its size"
    )


def _of_host(used: int) -> Memory:
    try:
        page = os.sysconf("SC_PAGE_SIZE")
        total, free = os.sysconf("SC_PHYS_PAGES") * page, os.sysconf("SC_AVPHYS_PAGES") * page
    except (AttributeError, ValueError, OSError) as error:  # Windows has no sysconf
        raise UnsupportedOperation(
            "memory", "this system does not report how much memory the host has"
        ) from error
    return Memory(int(used), free, total)


class PaddlePeaks(PeakCounter):
    """Paddle's statistics of allocated memory: for the CPU, GPUs, and simulated GPUs."""

    def used_bytes(self, device: Device) -> int:
        """The current value."""
        return int(self._statistic(device, "current_value"))

    def peak_bytes(self, device: Device) -> int:
        """The peak value."""
        return int(self._statistic(device, "peak_value"))

    def restart(self, device: Device) -> None:
        """Sets the peak value to the current one."""
        self._statistic(device, "reset_peak_value")

    def _statistic(self, device: Device, name: str) -> Any:
        if device.kind == "cpu":
            return getattr(core, f"host_memory_stat_{name}")("Allocated", 0)
        return getattr(core, f"device_memory_stat_{name}")("Allocated", self._number(device))

    def _number(self, device: Device) -> int:
        """The device's number in Paddle's statistics, whatever its type."""
        refused = f"the memory peak of {device}"
        if self.backend.simulated_count > simulator.DEVICES_OF_BANK:
            raise UnsupportedOperation(
                refused,
                f"Paddle counts some simulated GPUs together if there are more than "
                f"{simulator.DEVICES_OF_BANK}",
            )
        if device.is_simulated:
            return device.index
        if not device.native.is_gpu_place():
            raise UnsupportedOperation(refused, f"Paddle keeps no peak for {device.native_name}")
        return int(device.native.gpu_device_id())


def pinning_of(backend: Backend) -> Any:
    """``Tensor.pin_memory``, if there is a GPU to pin for."""
    if backend.simulated_count or not backend.device_count("gpu"):
        return unsupported("it needs a GPU: Paddle pins memory only in a build for CUDA")
    return lambda x: x if x.place.is_cuda_pinned_place() else x.clone().pin_memory()
