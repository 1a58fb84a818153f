"""Paddle's own count of the most memory that was in use, and the host's memory that is pinned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unidev.contract import PeakCounter, unsupported
from unidev.errors import UnsupportedOperation
from unidev_paddle.importing import import_paddle
from unidev_paddle.simulator import DEVICES_OF_BANK

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev.contract import Backend, Device

    Tensor = Any

paddle: Any = import_paddle()
core: Any = paddle.base.core


class PaddlePeaks(PeakCounter):
    """Its statistics of what tensors take: of the CPU, of GPUs, and of simulated ones."""

    def used_bytes(self, device: Device) -> int:
        """The current value."""
        return int(self._ask(device, "current_value"))

    def peak_bytes(self, device: Device) -> int:
        """The peak value."""
        return int(self._ask(device, "peak_value"))

    def restart(self, device: Device) -> None:
        """The peak value is the current one again."""
        self._ask(device, "reset_peak_value")

    def _ask(self, device: Device, what: str) -> Any:
        if device.kind == "cpu":
            return getattr(core, f"host_memory_stat_{what}")("Allocated", 0)
        return getattr(core, f"device_memory_stat_{what}")("Allocated", self._number(device))

    def _number(self, device: Device) -> int:
        """By which Paddle's statistics know the device: its number, whatever its type."""
        refused = f"the memory peak of {device}"
        if self.backend.simulated_count > DEVICES_OF_BANK:
            raise UnsupportedOperation(
                refused,
                f"of more than {DEVICES_OF_BANK} simulated GPUs Paddle counts some together",
            )
        if device.is_simulated:
            return device.index
        if not device.native.is_gpu_place():
            raise UnsupportedOperation(refused, f"Paddle counts no peak of {device.native_name}")
        return int(device.native.gpu_device_id())


def pinning_of(backend: Backend) -> Callable[[Tensor], Tensor]:
    """``Tensor.pin_memory``, where there is a GPU to pin for."""
    if backend.simulated_count or not backend.device_count("gpu"):
        return unsupported(  # type: ignore[no-any-return]
            "Paddle pins memory only in a build for CUDA, on a machine with a GPU",
            operation="pinned",
        )
    return lambda x: x.clone().pin_memory()
