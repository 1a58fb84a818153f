"""The plots as one PNG, by matplotlib."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from unidev.bench.plots import plots
from unidev.bench.svg import COLOURS

if TYPE_CHECKING:
    from unidev.bench.plots import Plot
    from unidev.bench.results import Bench


def to_png(bench: Bench) -> bytes:
    """One picture of all plots.

    Raises:
        ImportError: matplotlib is not installed.
    """
    # Not pyplot: that would choose a backend of its own and keep the figure.
    from matplotlib.figure import Figure

    found = plots(bench)
    figure = Figure(figsize=(8, 4.5 * len(found)), layout="constrained")
    figure.suptitle(
        f"unidev bench: {bench.backend}, {bench.framework} {bench.framework_version}, {bench.date}"
    )
    for axes, plot in zip(figure.subplots(len(found), squeeze=False)[:, 0], found, strict=True):
        draw(axes, plot)
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=110)
    return file.getvalue()


def draw(axes: Any, plot: Plot) -> None:
    """One plot, on matplotlib's ``axes``."""
    for index, series in enumerate(plot.series):
        xs, ys, lows, highs = zip(*series.points, strict=True)
        axes.errorbar(
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
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: plot.x_text(value))
    axes.yaxis.set_major_formatter(lambda value, _: plot.y_text(value))
    axes.set_title(plot.title)
    axes.set_xlabel(plot.x_label)
    axes.set_ylabel(plot.y_label)
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend(fontsize="small")
