"""unidev's examples and benchmarks, run as a user runs them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from hardware_report import children
from hardware_report.outcome import Findings, Outcome
from hardware_report.setting import ROOT, need

if TYPE_CHECKING:
    from hardware_report.setting import Setting

LIMIT_S = 600.0
_EXACT_ON = 2
"""The number of GPUs with which what the examples print was recorded."""


def example(setting: Setting, name: str, needs: tuple[str, ...] = (), least: int = 1) -> Outcome:
    """One example ends well, and prints what is expected where that is recorded."""
    need(*needs)
    gpus, found = setting.gpus(least), Findings()
    ended = children.run(
        [sys.executable, str(ROOT / "examples" / f"{name}.py")], LIMIT_S, setting.folder,
        environment={"MPLBACKEND": "Agg"},
    )  # fmt: skip
    found.expect(ended.code == 0, f"{name}.py: {ended.briefly}")
    expected = ROOT / "examples" / f"{name}.expected"
    if expected.exists() and len(gpus) == _EXACT_ON:
        is_same = ended.out == expected.read_text(encoding="utf-8")
        found.expect(is_same, f"{name}.py printed something else than {expected.name}")
    found.table("What it printed", (f"{name}.py",), [[line] for line in _some(ended.out)])
    return found.outcome()


def benchmark(setting: Setting, name: str, least: int = 1) -> Outcome:
    """One benchmark ends well; its ratios are reported, not judged."""
    setting.gpus(least)
    found = Findings()
    words = [sys.executable, str(ROOT / "benchmarks" / f"{name}.py"), "--backend", setting.name]
    ended = children.run([*words, "--device", "gpu:0"], LIMIT_S, setting.folder)
    found.expect(ended.code == 0, f"{name}.py: {ended.briefly}")
    rows = [_cells(line) for line in ended.out.splitlines() if line.startswith("|")]
    if len(rows) > 2:
        found.table(f"benchmarks/{name}.py", rows[0], rows[2:])  # without the line of dashes
    found.expect(len(rows) > 2, f"{name}.py printed no table: {ended.said}")
    return found.outcome()


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _some(text: str, most: int = 30) -> list[str]:
    lines = text.splitlines()
    return lines if len(lines) <= most else [*lines[: most - 1], f"… {len(lines) - most} more"]
