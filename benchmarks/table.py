"""A child process for each backend, and one table of what they measured."""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import os
import platform
import subprocess
import sys
from typing import TYPE_CHECKING

from measure import Row

from unidev.support.progress import progress
from unidev.support.wording import bytes_text, seconds_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

FRAMEWORKS = {
    "numpy": "numpy",
    "torch": "torch",
    "tensorflow": "tensorflow",
    "paddle": "paddle",
    "mxnet": "mxnet",
    "jax": "jax",
}


def main(
    description: str,
    rows_of: Callable[[str, str], Iterable[Row]],
    plot: Callable[[list[Row], str], None] | None = None,
) -> None:
    """Measure every installed backend, each in its own process, and print a table."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--backend", action="append", choices=FRAMEWORKS, help="default: all installed"
    )
    parser.add_argument("--device", default="cpu", help="unidev's spelling (default: cpu)")
    if plot is not None:
        parser.add_argument("--plot", metavar="FILE", help="a PNG file to draw the rows into")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        for row in rows_of(options.backend[0], options.device):
            print(json.dumps(row), flush=True)
        return
    installed = [name for name, module in FRAMEWORKS.items() if importlib.util.find_spec(module)]
    missing = sorted(set(FRAMEWORKS) - set(installed))
    rows = [row for name in options.backend or installed for row in _measure(name, options.device)]
    print_table(rows)
    if plot is not None and options.plot:
        plot(rows, options.plot)
    if missing and not options.backend:
        print(f"\nNot installed, so not measured: {', '.join(missing)}.")


def _measure(backend: str, device: str) -> list[Row]:
    command = [sys.executable, sys.argv[0], "--child", "--backend", backend, "--device", device]
    environment = {**os.environ, "UNIDEV_BACKEND": backend}
    with progress(f"measuring {backend}"):
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
    return [Row(*json.loads(line)) for line in done.stdout.splitlines() if line.startswith("[")]


def print_table(rows: list[Row]) -> None:
    """Markdown, so that it can be read anywhere and pasted into docs/benchmarks.md."""
    print(f"{datetime.date.today()}, {platform.platform()}, {os.cpu_count()} cores, ", end="")
    clock = "CPU time. " if os.environ.get("BENCH_CPU") else ""
    print(f"Python {platform.python_version()}. {clock}Medians; lower ratios are better.\n")
    print("| backend | what | against | unidev | other | ratio | at most | |")
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        limit = "" if row.at_most is None else f"{row.at_most:g}"
        verdict = "" if row.at_most is None else ("ok" if row.ratio <= row.at_most else "MISSED")
        print(
            f"| {row.backend} | {row.what} | `{row.against}` | {_quantity(row.ours, row.unit)} "
            f"| {_quantity(row.theirs, row.unit)} | {row.ratio:.3g} | {limit} | {verdict} |"
        )


def _quantity(value: float, unit: str) -> str:
    if not unit:
        return f"{value:,}"
    return bytes_text(round(value)) if unit == "bytes" else seconds_text(value)
