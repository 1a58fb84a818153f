"""The plots: as data, and drawn with matplotlib, one PNG with all of them, or one SVG each."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, NamedTuple

from unidev.bench.results import BANDWIDTH, HERE, PRODUCT, SUM
from unidev.bench.spread import rate
from unidev.system.wording import bytes_text, seconds_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from matplotlib.figure import Figure

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
    bandwidth = Plot(
        "bandwidth", "Transfer bandwidth between devices", "bytes of a tensor", "bytes per second",
        _series(bench.find(BANDWIDTH)), lambda value: bytes_text(round(value)), rate, y_base=2,
    )  # fmt: skip
    matrices = [
        Plot(subject, f"A {subject} of two square matrices", "rows of a matrix", "seconds",
             _series(bench.find(subject)), "{:,.0f}".format, seconds_text)
        for subject in (PRODUCT, SUM)
    ]  # fmt: skip
    return [plot for plot in (bandwidth, *matrices) if plot.series]


def _series(results: Iterable[Result]) -> tuple[Series, ...]:
    found: dict[str, list[Point]] = {}
    for each in results:
        if each.summary is None or each.size is None:
            continue
        median, low, high, _ = each.summary
        point = Point(each.size, median, low, high)
        if each.subject == BANDWIDTH:  # the highest rate belongs to the shortest time
            point = Point(each.size, each.size / median, each.size / high, each.size / low)
        name = each.device if each.variant == HERE else f"{each.device}, {each.variant}"
        found.setdefault(name, []).append(point)
    return tuple(Series(name, tuple(sorted(points))) for name, points in found.items())


COLOURS = ("#0b6e99", "#d9580d", "#2a7f3f", "#8e3fa8", "#b58900", "#c0325a", "#556270", "#00807a")
"""Distinguishable in print, and by most people with a colour vision deficiency."""
_WIDTH, _HEIGHT = 8, 4.5
"""The size of one plot, in inches."""


def to_png(bench: Bench) -> bytes:
    """One picture with all plots."""
    title = f"unidev bench: {bench.backend}, {bench.framework} {bench.framework_version}"
    return _saved(figure_of(plots(bench), f"{title}, {bench.date}"), format="png", dpi=110)


def to_svg(plot: Plot) -> bytes:
    """One plot; a series is the element with the id ``plot.name/series.name``."""
    import matplotlib as mpl

    unneeded = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with mpl.rc_context({"svg.hashsalt": plot.name}):  # the same ids each time
        return _saved(figure_of([plot]), format="svg", metadata=unneeded)


def figure_of(found: list[Plot], title: str = "") -> Figure:
    """The plots, one below the other."""
    # Not pyplot: that would choose a GUI backend and keep a reference to the figure.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, _HEIGHT * max(len(found), 1)), layout="constrained")
    figure.suptitle(title)
    for position, plot in enumerate(found, start=1):
        draw(figure.add_subplot(len(found), 1, position), plot)
    return figure


def _saved(figure: Figure, **options: Any) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, **options)
    return file.getvalue()


def draw(axes: Any, plot: Plot) -> None:
    """One plot, on matplotlib's ``axes``."""
    for index, series in enumerate(plot.series):
        xs, ys, lows, highs = zip(*series.points, strict=True)
        drawn = axes.errorbar(
            xs,
            ys,
            yerr=(
                [y - low for y, low in zip(ys, lows, strict=True)],
                [high - y for y, high in zip(ys, highs, strict=True)],
            ),
            marker="o",
            markersize=4,
            capsize=2,
            label=series.name,
            color=COLOURS[index % len(COLOURS)],
            linestyle="-" if index < len(COLOURS) else "--",
        )
        drawn.lines[0].set_gid(f"{plot.name}/{series.name}")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=plot.y_base)
    axes.set_xticks(sorted({point.x for series in plot.series for point in series.points}))
    axes.xaxis.set_major_formatter(lambda value, _: plot.x_text(value))
    axes.yaxis.set_major_formatter(lambda value, _: plot.y_text(value))
    axes.set_title(plot.title)
    axes.set_xlabel(plot.x_label)
    axes.set_ylabel(plot.y_label)
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend(fontsize="small")
