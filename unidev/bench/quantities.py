"""Timings, rates and ratios for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unidev.support.wording import bytes_text, number_text, seconds_text

if TYPE_CHECKING:
    from unidev.bench.spread import Summary


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
