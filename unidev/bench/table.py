"""The results for a terminal, and as plain text."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from unidev.bench.rows import COLUMNS, TITLES, heading, rows
from unidev.support.wording import plain

if TYPE_CHECKING:
    from unidev.bench.results import Bench

_WIDTH = 10_000
"""A file is not wrapped."""


def to_text(bench: Bench, findings: list[str]) -> str:
    """The printed text, without colours."""
    file = io.StringIO()
    print_table(bench, findings, Console(file=file, width=_WIDTH, highlight=False, emoji=False))
    return "".join(f"{line.rstrip()}\n" for line in plain(file.getvalue()).splitlines())


def print_table(bench: Bench, findings: list[str], console: Console) -> None:
    """Print the tables and the findings."""
    for line in heading(bench):
        console.print(Text(line))
    for subject, title in TITLES.items():
        found = rows(bench, subject)
        if not found:
            continue
        console.print()
        console.print(Text(title, style="bold"))
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for column in COLUMNS:
            table.add_column(column, justify="right" if column == "size" else "left")
        for row in found:
            table.add_row(*(Text(cell) for cell in row))
        console.print(table)
    console.print()
    for sentence in findings:
        console.print(Text(sentence))
