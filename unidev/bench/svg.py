"""A plot as inline SVG: no script, nothing from elsewhere; every point says what it is."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

from unidev.bench.plots import decades

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unidev.bench.plots import Plot, Point, Series

WIDTH, HEIGHT = 720, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 20, 16, 48
COLOURS = ("#0b6e99", "#d9580d", "#2a7f3f", "#8e3fa8", "#b58900", "#c0325a", "#556270", "#00807a")
"""Told apart in print, and by most who see colours otherwise; the legend and titles name them."""
_MOST_TICKS = 8


class _Axis:
    """A logarithmic axis: from values to pixels."""

    def __init__(self, ticks: list[float], begin: float, end: float) -> None:
        self.ticks = ticks[:: math.ceil(len(ticks) / _MOST_TICKS)]
        self._low, self._high = math.log(ticks[0]), math.log(ticks[-1])
        self._begin, self._end = begin, end

    def at(self, value: float) -> float:
        """Where ``value`` is."""
        part = (math.log(value) - self._low) / (self._high - self._low)
        return round(self._begin + part * (self._end - self._begin), 2)


def to_svg(plot: Plot) -> str:
    """The ``<svg>`` of one plot, with its legend."""
    points = plot.points
    x = _Axis(
        decades(min(p.x for p in points), max(p.x for p in points), base=2), _LEFT, WIDTH - _RIGHT
    )
    y = _Axis(
        decades(min(p.low for p in points), max(p.high for p in points)), HEIGHT - _BOTTOM, _TOP
    )
    height = HEIGHT + 20 * len(plot.series)
    return "\n".join(
        [
            f'<svg id="{escape(plot.name)}" viewBox="0 0 {WIDTH} {height}" role="img" '
            f'aria-label="{escape(plot.title)}">',
            *_grid(plot, x, y),
            *(
                line
                for index, each in enumerate(plot.series)
                for line in _drawn(plot, each, index, x, y)
            ),
            "</svg>",
        ]
    )


def _grid(plot: Plot, x: _Axis, y: _Axis) -> Iterator[str]:
    right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM
    for value in x.ticks:
        at = x.at(value)
        yield f'<path class="grid" d="M{at} {_TOP}V{bottom}"/>'
        yield _text(at, bottom + 18, plot.x_text(value), "middle")
    for value in y.ticks:
        at = y.at(value)
        yield f'<path class="grid" d="M{_LEFT} {at}H{right}"/>'
        yield _text(_LEFT - 8, at + 4, plot.y_text(value), "end")
    yield _text((_LEFT + right) / 2, bottom + 38, plot.x_label, "middle")
    yield (
        f'<text transform="translate(14 {(_TOP + bottom) / 2}) rotate(-90)" '
        f'text-anchor="middle">{escape(plot.y_label)}</text>'
    )


def _drawn(plot: Plot, series: Series, index: int, x: _Axis, y: _Axis) -> Iterator[str]:
    colour = COLOURS[index % len(COLOURS)]
    dash = ' stroke-dasharray="6 3"' if index >= len(COLOURS) else ""
    yield f'<g data-series="{escape(series.name)}" stroke="{colour}" fill="{colour}">'
    line = " ".join(f"{x.at(each.x)},{y.at(each.y)}" for each in series.points)
    yield f'<polyline points="{line}" fill="none" stroke-width="2"{dash}/>'
    for each in series.points:
        at = x.at(each.x)
        yield f'<path d="M{at} {y.at(each.low)}V{y.at(each.high)}" stroke-width="1"/>'
        yield (
            f'<circle cx="{at}" cy="{y.at(each.y)}" r="3.5" data-x="{each.x!r}" '
            f'data-y="{each.y!r}"><title>{escape(_said(plot, series, each))}</title></circle>'
        )
    yield "</g>"
    below = HEIGHT + 20 * index + 6
    yield f'<path d="M{_LEFT} {below}h24" stroke="{colour}" stroke-width="3"{dash}/>'
    yield _text(_LEFT + 32, below + 4, series.name, "start")


def _said(plot: Plot, series: Series, point: Point) -> str:
    return (
        f"{series.name}, {plot.x_text(point.x)}: {plot.y_text(point.y)} "
        f"({plot.y_text(point.low)} to {plot.y_text(point.high)})"
    )


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'
