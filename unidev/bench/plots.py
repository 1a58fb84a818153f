"""The plots, as data: ``picture`` draws them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from unidev.bench.quantities import rate
from unidev.bench.results import BANDWIDTH, HERE, PRODUCT, SUM
from unidev.support.wording import bytes_text, seconds_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from unidev.bench.results import Bench, Result


class Point(NamedTuple):
    """A median with its quartiles."""

    x: float
    y: float
    low: float
    high: float


class Series(NamedTuple):
    """One line of a plot."""

    name: str
    points: tuple[Point, ...]


class Plot(NamedTuple):
    """A plot with logarithmic axes; the base of the x axis is 2."""

    name: str
    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    x_text: Callable[[float], str]
    y_text: Callable[[float], str]
    y_base: int = 10


def plots(bench: Bench) -> list[Plot]:
    """Bandwidth, products and sums; plots without points are left out."""
    return [plot for plot in (_bandwidth(bench), *_matrices(bench)) if plot.series]


def _bandwidth(bench: Bench) -> Plot:
    def name(result: Result) -> str:
        return f"{result.device}, {result.variant}"

    series = _series(bench.find(BANDWIDTH), name, is_rate=True)
    return Plot(
        "bandwidth", "Transfer bandwidth between devices", "bytes of a tensor", "bytes per second",
        series, lambda value: bytes_text(round(value)), rate, y_base=2,
    )  # fmt: skip


def _matrices(bench: Bench) -> list[Plot]:
    def name(result: Result) -> str:
        return result.device if result.variant == HERE else f"{result.device}, {result.variant}"

    return [
        Plot(subject, f"A {subject} of two square matrices", "rows of a matrix", "seconds",
             _series(bench.find(subject), name, is_rate=False), "{:,.0f}".format, seconds_text)
        for subject in (PRODUCT, SUM)
    ]  # fmt: skip


def _series(
    results: Iterable[Result], name: Callable[[Result], str], *, is_rate: bool
) -> tuple[Series, ...]:
    found: dict[str, list[Point]] = {}
    for each in results:
        if each.summary is None or each.size is None:
            continue
        median, low, high, _ = each.summary
        point = Point(each.size, median, low, high)
        if is_rate:  # the highest rate belongs to the shortest time
            point = Point(each.size, each.size / median, each.size / high, each.size / low)
        found.setdefault(name(each), []).append(point)
    return tuple(Series(name, tuple(sorted(points))) for name, points in found.items())
