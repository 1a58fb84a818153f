"""A GPU's memory in four layouts: own, a carve-out, no answer, an instance (MIG)."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from doctor_cases import case, with_gpus
from fake_nvml import FakeNvml
from rich.console import Console

from unidev.backends.driver_memory import gpu_meant
from unidev.doctor.text import print_diagnosis
from unidev.system import gpu_memory
from unidev.system.nvml import ask_nvml

if TYPE_CHECKING:
    from unidev.system.facts import Gpu

MIB = 2**20
HOST = (40_000 * MIB, 46_477 * MIB)
"""Free and in total."""


class CarveOut(FakeNvml):
    """Of the host's memory the driver counts what the firmware has set aside, and that is full."""

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> Any:
        return SimpleNamespace(used=8_100 * MIB, free=28 * MIB, total=8_128 * MIB)


LAYOUTS = {
    "a card of its own": (FakeNvml(), (3, 10), False),
    "carve-out": (CarveOut(capability=(8, 7)), (HOST[1] - HOST[0], HOST[1]), True),
    "no answer": (
        FakeNvml(broken={0: ("memory", 3)}, capability=(12, 1)),
        (HOST[1] - HOST[0], HOST[1]),
        True,
    ),
    "MIG": (FakeNvml(mig=1), (3, 10), False),
}


def asked(nvml: FakeNvml) -> Gpu:
    (gpu,) = ask_nvml(nvml, lambda _pid: (None, ())).gpus
    return gpu


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_memory, "free_and_total", lambda: HOST)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_used_and_total_are_the_drivers_or_both_the_hosts(layout: str) -> None:
    nvml, memory, is_shared = LAYOUTS[layout]
    gpu = asked(nvml)
    assert (gpu.used_bytes, gpu.total_bytes) == memory
    assert gpu.shares_host_memory is is_shared


def test_an_instance_has_its_own_memory_and_names_its_parent() -> None:
    whole = asked(FakeNvml(mig=1))
    (part,) = whole.parts
    assert (part.used_bytes, part.total_bytes, part.uuid) == (1, 2, "MIG-1")
    assert (part.name, part.parent) == ("NVIDIA H200 MIG 1g.18gb", "GPU 0, NVIDIA H200")
    assert whole.parent is None
    for environment in ({}, {"CUDA_VISIBLE_DEVICES": "MIG-1"}, {"CUDA_VISIBLE_DEVICES": "0"}):
        assert gpu_meant(0, environment, (whole,)) is part
        assert gpu_meant(1, environment, (whole,)) is None


def test_where_the_host_does_not_report_its_memory_it_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gpu_memory, "free_and_total", lambda: (None, None))
    gpu = asked(CarveOut(capability=(8, 7)))
    assert (gpu.used_bytes, gpu.total_bytes, gpu.shares_host_memory) == (None, None, True)
    assert gpu_memory.free_text(gpu) == "shares the host's memory"


@pytest.mark.parametrize(
    ("layout", "shown"),
    [
        ("a card of its own", "GPU 0, NVIDIA H200, sm_90, 7 bytes of 10 bytes free\n"),
        (
            "carve-out",
            "GPU 0, NVIDIA H200, sm_87, 39.1 GiB of 45.4 GiB free, shared with the host\n",
        ),
        (
            "no answer",
            "GPU 0, NVIDIA H200, sm_121, 39.1 GiB of 45.4 GiB free, shared with the host\n",
        ),
        ("MIG", "   NVIDIA H200 MIG 1g.18gb of GPU 0, NVIDIA H200, 1 byte of 2 bytes free\n"),
    ],
)
def test_the_doctor_shows_it(layout: str, shown: str) -> None:
    file = io.StringIO()
    given = case(with_gpus(asked(LAYOUTS[layout][0])))
    print_diagnosis(given, [], Console(file=file, width=200))
    assert shown in file.getvalue()
