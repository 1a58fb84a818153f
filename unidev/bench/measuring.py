"""Timing one call: repeated until there are enough timings or the budget is used up."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, NamedTuple

from unidev.bench.spread import Summary, summary
from unidev.system.collecting import collection_paused

if TYPE_CHECKING:
    from collections.abc import Callable

_SAMPLE_S = 1e-3
"""Shorter calls are repeated within one timing, so that the clock's own cost is negligible."""
_MOST_CALLS = 1000


class Effort(NamedTuple):
    """How much time to spend on one measurement."""

    budget_s: float = 0.4
    most: int = 30
    """The most timings to take; fewer if the budget is used up."""
    least: int = 5
    few: int = 3
    """The number of timings if one call takes longer than the budget."""


QUICK = Effort()
FULL = Effort(budget_s=2.0, most=100, least=11, few=5)


def measure(
    call: Callable[[], object],
    effort: Effort = QUICK,
    clock: Callable[[], float] = time.perf_counter,
) -> Summary:
    """Seconds per call; ``call`` itself must wait until its work is done."""
    call()  # a framework compiles, chooses algorithms and allocates memory
    began = clock()
    call()
    first_s = clock() - began
    calls = 1 if first_s >= _SAMPLE_S else min(_MOST_CALLS, int(_SAMPLE_S / max(first_s, 1e-9)) + 1)
    least = effort.few if first_s > effort.budget_s else effort.least
    seconds: list[float] = []
    gc.collect()
    with collection_paused():
        began = clock()
        while len(seconds) < least or (
            len(seconds) < effort.most and clock() - began < effort.budget_s
        ):
            start = clock()
            for _ in range(calls):
                call()
            seconds.append((clock() - start) / calls)
    return summary(seconds)
