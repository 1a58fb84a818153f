"""Seconds and bytes for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unidev.bench.spread import Summary

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_BYTES = ((2**30, "GB"), (2**20, "MB"), (2**10, "KB"))


def seconds(value: float) -> str:
    """``12.3 ms``."""
    for scale, unit in _UNITS:
        if value >= scale:
            return f"{_three_digits(value / scale)} {unit}"
    return f"{_three_digits(value / 1e-9)} ns"


def spread(given: Summary) -> str:
    """``12.3 ms (12.1 ms to 12.9 ms)``: the median, and between which half of all timings lie."""
    return f"{seconds(given.median_s)} ({seconds(given.low_s)} to {seconds(given.high_s)})"


def size(count: int) -> str:
    """``64 KB``, of 1,024 bytes each."""
    for scale, unit in _BYTES:
        if count >= scale:
            return f"{_three_digits(count / scale)} {unit}"
    return f"{count} B"


def rate(bytes_a_second: float) -> str:
    """``12.3 GB/s``, of 10**9 bytes, as makers of hardware count."""
    if bytes_a_second >= 1e9:
        return f"{_three_digits(bytes_a_second / 1e9)} GB/s"
    return f"{_three_digits(bytes_a_second / 1e6)} MB/s"


def times(factor: float) -> str:
    """``3.2 times``."""
    return f"{_three_digits(factor)} times"


def _three_digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
