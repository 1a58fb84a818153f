"""Medians with their spread, and what may be concluded from them: pure functions of timings."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_FEW = 5
"""Of fewer timings the spread is all of them: their quartiles would say more than is known."""


class Summary(NamedTuple):
    """Several timings of one thing, in seconds."""

    median_s: float
    low_s: float
    """The lower quartile; of fewer than five timings the least."""
    high_s: float
    """The upper quartile; of fewer than five timings the most."""
    timings: int
    """How many there were."""


def summary(seconds: Sequence[float]) -> Summary:
    """Median and quartiles: one timing that was disturbed moves neither."""
    count = len(seconds)
    if count < _FEW:
        return Summary(statistics.median(seconds), min(seconds), max(seconds), count)
    low, middle, high = statistics.quantiles(seconds, n=4, method="inclusive")
    return Summary(middle, low, high, count)


def is_faster(a: Summary, b: Summary) -> bool:
    """Whether ``a`` takes less time than ``b``, and not only by its spread."""
    return a.high_s < b.low_s


class Ranking(NamedTuple):
    """Who is fastest, and who cannot be told from it."""

    best: str
    """The first, in the order given, of those that cannot be told apart from the fastest."""
    contenders: tuple[str, ...]
    """The fastest, and those that cannot be told apart from it, in the order given."""

    @property
    def is_too_close(self) -> bool:
        """Whether the spread is larger than the difference."""
        return len(self.contenders) > 1


def rank(summaries: Mapping[str, Summary]) -> Ranking:
    """The fastest by its median, and those whose spread reaches down to its own."""
    fastest = min(summaries.values(), key=lambda each: each.median_s)
    contenders = tuple(
        name for name, each in summaries.items() if each is fastest or not is_faster(fastest, each)
    )
    return Ranking(contenders[0], contenders)


def crossover(pairs: Iterable[tuple[int, Summary, Summary]]) -> int | None:
    """From which size on the second of each pair is faster, up to the largest; None: at none.

    ``pairs`` are ``(size, first, second)`` in any order. A size at which the spread hides who is
    faster does not end the streak, nor does it begin one.
    """
    start = None
    for size, first, second in sorted(pairs, key=lambda pair: pair[0], reverse=True):
        if is_faster(second, first):
            start = size
        elif start is None or is_faster(first, second):
            break
    return start


def ratio(a: Summary, b: Summary) -> float:
    """How many times as long as ``b`` the median of ``a`` takes."""
    return a.median_s / b.median_s if b.median_s > 0 else float("inf")
