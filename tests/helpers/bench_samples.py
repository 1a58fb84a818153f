"""Benches that are made up, for what is made of timings."""

from __future__ import annotations

from typing import Any

from unidev import as_device
from unidev.bench import tasks, textbook
from unidev.bench.report import Trial
from unidev.bench.results import (
    BANDWIDTH,
    FLOOR,
    FORMAT_VERSION,
    HERE,
    JOURNEY,
    PRODUCT,
    SUM,
    TEXTBOOK,
    Bench,
    DeviceRecord,
    GpuRecord,
    Result,
)
from unidev.bench.spread import Summary
from unidev.system.gpu_state import GpuState

SIZES = (8, 64, 512, 4096)
CPU = DeviceRecord(device="cpu:0", name="a CPU", is_simulated=False)
GPU = DeviceRecord(device="gpu:0", name="a GPU", is_simulated=False)
PRETENDED = DeviceRecord(device="gpu:1", name="simulated GPU 1", is_simulated=True)


def timed(median_s: float, spread: float = 0.1) -> Summary:
    """A tenth about the median."""
    return Summary(median_s, median_s * (1 - spread), median_s * (1 + spread), 9)


def trial(
    device: str, there: float, computing: float, back: float, spread: float = 0.1, **more: Any
) -> Trial:
    """One device's part of a report, of medians in seconds."""
    total, *parts = (timed(x, spread) for x in (there + computing + back, there, computing, back))
    steps = dict(zip(("there", "computing", "back"), parts, strict=True))
    return Trial(device=as_device(device), total=total, **steps, **more)


def bench(devices: tuple[DeviceRecord, ...], results: list[Result], **changed: Any) -> Bench:
    told: dict[str, Any] = {
        "backend": "theirs", "framework": "theirs", "framework_version": "1.2",
        "unidev_version": "0.1.0", "python": "3.11.7", "platform": "Linux", "cores": 2,
        "load": 0.1, "date": "2026-11-21 08:00 UTC", "is_full": False, "seconds": 12.3,
    }  # fmt: skip
    return Bench(**{**told, **changed}, devices=devices, results=tuple(results))


def cpu_seconds(size: int) -> float:
    return 1e-6 + 1e-11 * size**3


def gpu_seconds(size: int) -> float:
    return 2e-5 + 1e-13 * size**3


def journey_seconds(size: int) -> float:
    return gpu_seconds(size) + 5e-5 + 1e-9 * size**2


def of_cpu() -> list[Result]:
    """All that a machine without a GPU can tell."""
    results = [
        Result(subject=FLOOR, what=what, device="cpu:0", summary=timed(seconds))
        for what, seconds in ((tasks.WAITED, 2e-6), (tasks.QUEUED, 1.5e-4), (tasks.READ, 1e-5))
    ]
    results += [
        Result(subject=BANDWIDTH, what="copy_to", device="cpu:0 to cpu:0", size=size,
               variant="from pageable memory", summary=timed(1e-6 + size / 1e9))
        for size in (1024, 4096)
    ]  # fmt: skip
    results += [
        Result(subject=subject, what=what, device="cpu:0", size=size,
               summary=timed(cpu_seconds(size)))
        for subject, what in ((PRODUCT, "x @ y"), (SUM, "x + y"))
        for size in SIZES
    ]  # fmt: skip
    results.append(
        Result(subject=TEXTBOOK, what=textbook.AT_ONCE, device="cpu:0", reason="one <device> & no")
    )
    results += [
        Result(subject=TEXTBOOK, what=what, device="cpu:0", summary=timed(seconds))
        for what, seconds in ((textbook.LOGGED, 0.3), (textbook.KEPT, 0.1))
    ]
    return results


def of_gpu() -> list[Result]:
    return [
        Result(subject=subject, what=what, device="gpu:0", size=size, variant=variant,
               summary=timed(seconds(size)))
        for subject, what in ((PRODUCT, "x @ y"), (SUM, "x + y"))
        for variant, seconds in ((HERE, gpu_seconds), (JOURNEY, journey_seconds))
        for size in SIZES
    ]  # fmt: skip


ONLY_CPU = bench((CPU, PRETENDED), of_cpu(), load=3.5)
WITH_GPU = bench((CPU, GPU), of_cpu() + of_gpu())


def from_document(document: dict[str, Any]) -> Bench:
    """The bench of which ``to_document`` made this: nothing of it is lost."""
    assert document["format"] == FORMAT_VERSION
    concluded = ("format", "crossovers", "findings")
    fields = {key: value for key, value in document.items() if key not in concluded}
    fields["devices"] = tuple(DeviceRecord(**each) for each in fields["devices"])
    fields["results"] = tuple(
        Result(**{**each, "summary": each["summary"] and Summary(**each["summary"])})
        for each in fields["results"]
    )
    fields["gpu_states"] = tuple(
        GpuRecord(
            before=GpuState(**each["before"]),
            after=None if each["after"] is None else GpuState(**each["after"]),
        )
        for each in fields["gpu_states"]
    )
    return Bench(**fields)
