"""Paddle's places as unidev's devices: the CPU, and every accelerator as a GPU."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from unidev_paddle.simulator import DEVICES_OF_BANK, bank_first, bank_name

_SPELLING = re.compile(r"(\w+)(?::(-?\d{1,18}))?", re.ASCII)


@dataclass(frozen=True)
class Accelerator:
    """One accelerator that Paddle computes on."""

    device_type: str
    """Paddle's name for its kind: ``gpu``, ``xpu``, ``npu``, ``sim``, …"""
    device_id: int

    def __str__(self) -> str:
        return f"{self.device_type}:{self.device_id}"

    def place(self, core: Any) -> Any:
        """Paddle's own object for it. Creates no context."""
        if self.device_type == "gpu":
            return core.CUDAPlace(self.device_id)
        if self.device_type == "xpu":
            return core.XPUPlace(self.device_id)
        return core.CustomPlace(self.device_type, self.device_id)


def simulated(count: int) -> list[Accelerator]:
    """The simulated GPUs, which stand in for all other accelerators."""
    return [Accelerator(bank_name(i), i % DEVICES_OF_BANK) for i in range(count)]


def real(core: Any) -> list[Accelerator]:
    """The machine's: CUDA (ROCm too, which Paddle calls CUDA), XPU, then plug-in devices.

    Paddle looks for devices when it is imported and keeps the result for the lifetime of the
    process; the query touches none of them.
    """
    counts: dict[str, int] = {}
    if core.is_compiled_with_cuda():
        counts["gpu"] = core.get_cuda_device_count()
    if core.is_compiled_with_xpu():
        counts["xpu"] = core.get_xpu_device_count()
    for device_type in sorted(core.get_all_custom_device_type() or []):
        if bank_first(device_type) is None:
            counts[device_type] = core.get_custom_device_count(device_type)
    return [Accelerator(kind, i) for kind, count in counts.items() for i in range(count)]


def parse_name(name: str, accelerators: list[Accelerator]) -> tuple[str, int] | None:
    """Kind and index of a device by Paddle's spelling, such as ``xpu:0`` or ``sim:1``.

    A device type that Paddle has, with an id that does not exist, gives an index that does
    not exist either: never that of a device of another type.
    """
    match = _SPELLING.fullmatch(name)
    if match is None:
        return None
    # Paddle itself accepts "cuda" for its own "gpu" (paddle.set_device, 3.2 and newer).
    device_type = "gpu" if match[1] == "cuda" else match[1]
    wanted = Accelerator(device_type, int(match[2] or 0))
    if wanted in accelerators:
        return "gpu", accelerators.index(wanted)
    if device_type not in {accelerator.device_type for accelerator in accelerators}:
        return None
    if wanted.device_id < 0:
        return "gpu", wanted.device_id
    return "gpu", max(wanted.device_id, len(accelerators))
