"""Timing one call: repeated until there is enough, or the time that it may take is over."""

from __future__ import annotations

import contextlib
import gc
import time
from typing import TYPE_CHECKING, NamedTuple

from unidev.bench.spread import Summary, summary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SAMPLE_S = 1e-3
"""What takes less is called several times for one timing, so that the clock itself is not seen."""
_MOST_CALLS = 1000


class Effort(NamedTuple):
    """How long one thing is measured."""

    budget_s: float = 0.4
    most: int = 30
    """Timings are taken until there are so many, or the budget is used up."""
    least: int = 5
    few: int = 3
    """Where one call takes longer than the budget, so many timings are enough."""


QUICK = Effort()
FULL = Effort(budget_s=2.0, most=100, least=11, few=5)


def measure(
    call: Callable[[], object],
    effort: Effort = QUICK,
    clock: Callable[[], float] = time.perf_counter,
) -> Summary:
    """Seconds a call; ``call`` itself waits until its work is done.

    The first call warms up: a framework compiles, chooses algorithms and takes memory in it.
    """
    call()
    began = clock()
    call()
    first_s = clock() - began
    calls = 1 if first_s >= _SAMPLE_S else min(_MOST_CALLS, int(_SAMPLE_S / max(first_s, 1e-9)) + 1)
    least = effort.few if first_s > effort.budget_s else effort.least
    seconds: list[float] = []
    with without_collecting():
        began = clock()
        while len(seconds) < least or (
            len(seconds) < effort.most and clock() - began < effort.budget_s
        ):
            seconds.append(_timed(call, calls, clock))
    return summary(seconds)


@contextlib.contextmanager
def without_collecting() -> Iterator[None]:
    """Within the block Python's collector does not come in between; before it, it cleans up."""
    gc.collect()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _timed(call: Callable[[], object], calls: int, clock: Callable[[], float]) -> float:
    began = clock()
    for _ in range(calls):
        call()
    return (clock() - began) / calls
