"""Two calls against each other: interleaved, many rounds, medians, a ratio."""

from __future__ import annotations

import gc
import statistics
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 41
ROUND_S = 0.004


class Row(NamedTuple):
    """One line of the table; times in seconds a call, sizes in bytes."""

    backend: str
    what: str
    against: str
    ours: float
    theirs: float
    ratio: float
    at_most: float | None
    unit: str = "s"


def compare(
    ours: Callable[[], object], theirs: Callable[[], object], rounds: int = ROUNDS
) -> tuple[float, float, float]:
    """Median seconds a call of each, and the median of the rounds' ratios."""
    ours_calls, theirs_calls = _calls_a_round(ours), _calls_a_round(theirs)
    a: list[float] = []
    b: list[float] = []
    for round_ in range(rounds):
        gc.collect()
        gc.disable()
        if round_ % 2:
            a.append(_time(ours, ours_calls))
            b.append(_time(theirs, theirs_calls))
        else:
            b.append(_time(theirs, theirs_calls))
            a.append(_time(ours, ours_calls))
        gc.enable()
    ratios = [x / y for x, y in zip(a, b, strict=True)]
    return statistics.median(a), statistics.median(b), statistics.median(ratios)


def _calls_a_round(function: Callable[[], object]) -> int:
    for _ in range(3):
        function()
    return max(1, int(ROUND_S / max(_time(function, 3), 1e-9)))


def _time(function: Callable[[], object], calls: int) -> float:
    loop = range(calls)
    start = time.perf_counter()
    for _ in loop:
        function()
    return (time.perf_counter() - start) / calls
