"""The steps of ``tools/gpu_report.py`` that judge copies and memory can fail."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hardware_report.outcome import FAIL, PASS
from hardware_report.steps import copies
from hardware_report.steps import memory as memory_step
from report_text import text

import unidev
from unidev.numpy_backend.backend import NumpyBackend

# -- copies ----------------------------------------------------------------------------------------

ROUTES = (
    copies.to_gpu, copies.to_host, copies.within_gpu, copies.between_gpus, copies.views_on_gpu,
)  # fmt: skip


@pytest.mark.parametrize("route", ROUTES)
def test_right_copies_pass(setting, route) -> None:
    outcome = route(setting)
    assert outcome.verdict == PASS, text(outcome)
    assert {"float32", "bool", "complex64"} <= set(outcome.facts["dtypes"])


def flips_a_bit(self, x, device, non_blocking, copy_to=NumpyBackend.copy_to):
    copy = copy_to(self, x, device, non_blocking)
    if copy.size > 100_000:
        copy.reshape(-1).view(np.uint8)[7:8] ^= 1
    return copy


def loses_a_dtype(self, x, device, non_blocking, copy_to=NumpyBackend.copy_to):
    return copy_to(self, x * 1 if x.dtype == np.int16 else x, device, non_blocking)


def changes_its_source(self, x, device, non_blocking, copy_to=NumpyBackend.copy_to):
    copy = copy_to(self, x, device, non_blocking)
    if non_blocking and x.flags.writeable:
        x[...] = 0
    return copy


def stays_behind(self, x, device, non_blocking, copy_to=NumpyBackend.copy_to):
    return copy_to(self, x, self.device_of(x), non_blocking)


def fails(self, x, device, non_blocking):
    raise unidev.OutOfDeviceMemoryError("made up")


@pytest.mark.parametrize(
    ("broken", "route", "said"),
    [
        (flips_a_bit, copies.to_gpu, "the copy differs in 1 of 1059868 bytes, first in byte 7"),
        (flips_a_bit, copies.views_on_gpu, "the copy differs in"),
        (changes_its_source, copies.to_host, "the source differs in"),
        (stays_behind, copies.between_gpus, "the copy is on gpu:0"),
        (fails, copies.within_gpu, "OutOfDeviceMemoryError: made up"),
    ],
)
def test_a_copy_that_is_wrong_fails(setting, monkeypatch, broken, route, said) -> None:
    monkeypatch.setattr(NumpyBackend, "copy_to", broken)
    outcome = route(setting)
    assert outcome.verdict == FAIL
    assert said in text(outcome)


def test_a_copy_that_is_its_source_fails(setting, monkeypatch) -> None:
    monkeypatch.setattr(copies.unidev, "copy_to", lambda x, device, *, non_blocking: x)
    assert "shares memory" in text(copies.within_gpu(setting))


def test_a_copy_with_other_lengths_is_told_apart() -> None:
    assert copies._difference("the copy", b"ab", b"abc") == "the copy has 2 bytes instead of 3"


# -- memory ----------------------------------------------------------------------------------------


class Counter:
    """A device's memory; tensors of 64 MiB are counted, unless something is broken."""

    def __init__(self, broken: str = "") -> None:
        self.used, self.broken, self.peak, self.start = 0, broken, 0, 0

    def empty(self, size: int, *, device: object) -> object:
        if size * 4 > 2**30:
            if self.broken == "raises another error":
                raise RuntimeError("CUDA error: out of memory")
            if self.broken == "gives it anyway":
                return SimpleNamespace()
            raise unidev.OutOfDeviceMemoryError("gpu:0 is out of memory")
        counter, nbytes = self, 0 if self.broken == "does not grow" else size * 4
        counter.used += nbytes
        counter.peak = max(counter.peak, counter.used)

        class Tensor:
            def __del__(self) -> None:
                if counter.broken != "leaks":
                    counter.used -= nbytes

        return Tensor()

    def memory(self, device: object) -> Any:
        driver = SimpleNamespace(
            used_bytes=self.used, total_bytes=2**30,
            free_bytes=2**29 if self.broken == "another process" else 2**30 - self.used,
        )  # fmt: skip
        free = 2**31 if self.broken == "free is too much" else 2**30 - self.used
        return Counts(self.used, free, 2**30, driver)

    def track_memory(self, device: object) -> Any:
        return Tracked(self)


class Counts(tuple):
    def __new__(cls, used: int, free: int, total: int, driver: object) -> Counts:
        made = super().__new__(cls, (used, free, total))
        made.used_bytes, made.free_bytes, made.total_bytes, made.driver = used, free, total, driver
        return made


class Tracked:
    def __init__(self, counter: Counter) -> None:
        self.counter = counter

    def __enter__(self) -> Tracked:
        self.start = self.counter.peak = self.counter.used
        return self

    def __exit__(self, *_: object) -> None:
        late = self.counter.broken == "sees what is left"
        self.added_bytes = (self.counter.used if late else self.counter.peak) - self.start


@pytest.mark.parametrize(
    ("step", "broken", "said"),
    [
        ("counts", "", None),
        ("counts", "does not grow", "used_bytes grew by 0 bytes"),
        ("counts", "leaks", "used_bytes did not return"),
        ("counts", "free is too much", "free and used bytes are more than there are"),
        ("counts", "another process", "by the driver 536,870,912"),
        ("peak", "", None),
        ("peak", "sees what is left", "the peak of 128 MiB is counted as 67,108,864 bytes"),
        ("lack", "", None),
        ("lack", "raises another error", "raised RuntimeError('CUDA error: out of memory')"),
        ("lack", "gives it anyway", "raised None"),
    ],
)
def test_memory_that_is_counted_wrongly_fails(setting, monkeypatch, step, broken, said) -> None:
    counter = Counter(broken)
    for name in ("empty", "memory", "track_memory"):
        monkeypatch.setattr(memory_step.unidev, name, getattr(counter, name))
    outcome = getattr(memory_step, step)(setting)
    assert outcome.verdict == (PASS if said is None else FAIL), text(outcome)
    assert said is None or said in text(outcome)
