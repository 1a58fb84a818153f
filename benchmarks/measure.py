"""Compare two statements: many interleaved rounds, medians, a ratio."""

from __future__ import annotations

import gc
import os
import statistics
import time
import timeit
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

CLOCK = time.process_time if os.environ.get("BENCH_CPU") else time.perf_counter
"""``BENCH_CPU=1``: CPU time, for a machine that is busy with other work."""
CHOSEN_ROUNDS = int(os.environ.get("BENCH_ROUNDS") or 0)
"""``--rounds``, or 0; in the environment, which workers and other children inherit."""
IS_TRIAL = CHOSEN_ROUNDS == 1
ROUND_S = 0.004
T = TypeVar("T")


class Row(NamedTuple):
    """One line of the table; times in seconds per call, sizes in bytes."""

    backend: str
    what: str
    against: str
    ours: float
    theirs: float
    ratio: float
    at_most: float | None
    unit: str = "s"


def rounds_or(own: int) -> int:
    """The rounds of a measurement that has a number of its own."""
    return CHOSEN_ROUNDS or own


def sized(whole: T, small: T) -> T:
    """``whole``; in a trial, ``small``."""
    return small if IS_TRIAL else whole


def compare(
    ours: str, theirs: str, names: dict[str, Any], rounds: int = 41
) -> tuple[float, float, float]:
    """Median seconds per call of each, and the median of the rounds' ratios.

    Statements, not functions: a function call would be part of the measurement.
    """
    timers = [timeit.Timer(statement, timer=CLOCK, globals=names) for statement in (ours, theirs)]
    calls = [_calls_a_round(timer) for timer in timers]
    times: list[list[float]] = [[], []]
    for round_ in range(rounds_or(rounds)):
        gc.collect()
        for which in (0, 1) if round_ % 2 else (1, 0):
            times[which].append(timers[which].timeit(calls[which]) / calls[which])
    ratios = [a / b for a, b in zip(*times, strict=True)]
    return statistics.median(times[0]), statistics.median(times[1]), statistics.median(ratios)


def peak_bytes(use: Callable[[], object]) -> int:
    """The increase of peak resident memory, in bytes, while ``use`` runs; Linux only."""
    gc.collect()
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
    use()
    return _status("VmHWM") - before


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise LookupError(field)


def _calls_a_round(timer: timeit.Timer) -> int:
    first = min(timer.timeit(1), timer.timeit(1))  # the very first may import something
    if IS_TRIAL or first > 20 * ROUND_S:
        return 1  # so long that one call is precise enough
    timer.timeit(3)
    return max(1, int(ROUND_S / max(timer.timeit(3) / 3, 1e-9)))
