"""Draws how the costs of exchanges grow with the number of workers, from counts in real runs."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tools"))
from exchange_counts import LARGE, OWN, SIZES, SMALL, most

OPERATIONS = [
    f"`{verb}` of {what}" for verb in ("all_reduce", "all_gather") for what in (SMALL, LARGE)
]


def plot(file: Path) -> None:
    """Count with NumPy, for workers that are each alone on a host, and write an image."""
    from matplotlib.figure import Figure

    costs = {size: most("numpy", OWN, size, is_apart=True) for size in SIZES}
    figure = Figure((10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for axes, field, label in (
        (left, "messages", "messages of the worker that sends most"),
        (right, "sent_bytes", "bytes that it sends, times those with 2 workers"),
    ):
        for name in OPERATIONS:
            counts = [getattr(costs[size][name], field) for size in SIZES]
            if field == "sent_bytes":
                counts = [count / counts[0] for count in counts]
            axes.plot(SIZES, counts, marker="o", label=name.replace("`", ""))
        axes.plot(SIZES, SIZES, color="grey", linestyle=":", label="a straight line")
        axes.set(xlabel="workers", ylabel=label, xticks=SIZES, ylim=(0, None))
        axes.legend()
    figure.savefig(file)
