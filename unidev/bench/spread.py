"""Medians with their spread, what follows from them, and their text: pure functions of timings."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, NamedTuple

from unidev.system.wording import bytes_text, number_text, seconds_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


_FEW = 5
"""With fewer timings, the spread is their full range: quartiles would be meaningless."""


class Summary(NamedTuple):
    """The summary of several timings, in seconds."""

    median_s: float
    low_s: float
    """The lower quartile; with fewer than five timings, the minimum."""
    high_s: float
    """The upper quartile; with fewer than five timings, the maximum."""
    timings: int
    """The number of timings."""


def summary(seconds: Sequence[float]) -> Summary:
    """Median and quartiles, which are robust against single outliers."""
    count = len(seconds)
    if count < _FEW:
        return Summary(statistics.median(seconds), min(seconds), max(seconds), count)
    low, middle, high = statistics.quantiles(seconds, n=4, method="inclusive")
    return Summary(middle, low, high, count)


def is_faster(a: Summary, b: Summary) -> bool:
    """Whether ``a`` takes less time than ``b``, with quartile ranges that do not overlap."""
    return a.high_s < b.low_s


class Ranking(NamedTuple):
    """The fastest, and those too close to it to call."""

    best: str
    """The first of the contenders."""
    contenders: tuple[str, ...]
    """The fastest and those too close to it to call, in the given order."""

    @property
    def is_too_close(self) -> bool:
        """Whether there is more than one contender."""
        return len(self.contenders) > 1


def rank(summaries: Mapping[str, Summary]) -> Ranking:
    """The fastest by median, and those whose spread overlaps with its own."""
    fastest = min(summaries.values(), key=lambda each: each.median_s)
    contenders = tuple(
        name for name, each in summaries.items() if each is fastest or not is_faster(fastest, each)
    )
    return Ranking(contenders[0], contenders)


def crossover(pairs: Iterable[tuple[int, Summary, Summary]]) -> int | None:
    """The size from which on the second of each pair is faster; None: there is none.

    ``pairs`` are ``(size, first, second)`` in any order. A size that is too close to call neither
    begins nor ends the streak.
    """
    start = None
    for size, first, second in sorted(pairs, key=lambda pair: pair[0], reverse=True):
        if is_faster(second, first):
            start = size
        elif start is None or is_faster(first, second):
            break
    return start


def ratio(a: Summary, b: Summary) -> float:
    """The median of ``a`` divided by that of ``b``."""
    return a.median_s / b.median_s if b.median_s > 0 else float("inf")


def spread(given: Summary) -> str:
    """``12.3 ms (12.1 ms to 12.9 ms)``: the median and the quartiles."""
    low, high = seconds_text(given.low_s), seconds_text(given.high_s)
    return f"{seconds_text(given.median_s)} ({low} to {high})"


def rate(bytes_a_second: float) -> str:
    """``12.3 GiB/s``."""
    return f"{bytes_text(round(bytes_a_second))}/s"


def times(factor: float) -> str:
    """``3.2 times``."""
    return f"{number_text(factor)} times"
