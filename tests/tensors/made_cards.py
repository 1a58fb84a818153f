"""Cards of NVIDIA's that are made up, and NumPy taken for a framework that computes on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unidev.backends import driver_memory
from unidev.backends.loading import load_backend
from unidev.contract.installation import Build, Installation
from unidev.device import Device
from unidev.system.facts import WORKS, Driver, Gpu, GpuProcess

if TYPE_CHECKING:
    import pytest

GPUS = (
    Gpu("cuda", 0, "NVIDIA H200", "GPU-aaaa", used_bytes=600, total_bytes=1000,
        processes=(GpuProcess(1, "small", 100), GpuProcess(2), GpuProcess(3, "big", 400))),
    Gpu("cuda", 1, "NVIDIA H200", "GPU-bbbb", used_bytes=0, total_bytes=1000),
    Gpu("cuda", 2, "NVIDIA H200", "GPU-abcd"),
)  # fmt: skip


class Cuda(Installation):
    """Of a framework that is built for CUDA."""

    def build(self) -> Build:
        return Build(accelerator="cuda")

    def usable_gpus(self) -> int:
        return 1


def put_driver(monkeypatch: pytest.MonkeyPatch, *gpus: Gpu) -> None:
    """Let NumPy's simulated GPUs pass for real ones, which the driver describes so."""
    cls = type(load_backend("numpy"))
    monkeypatch.setattr(Device, "is_simulated", property(lambda self: False))
    monkeypatch.setattr(cls, "installation", Cuda(load_backend("numpy")))
    monkeypatch.setattr(driver_memory, "ask_nvml", lambda *_: Driver("cuda", WORKS, gpus=gpus))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
