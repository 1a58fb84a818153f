"""What a function prints to a console of rich's, as HTML for a notebook: the same words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from unidev.support.tables import Table, as_html

if TYPE_CHECKING:
    from collections.abc import Callable


def html_of(print_to: Callable[[Console], None]) -> str:
    """The HTML of what ``print_to`` prints: texts, tables of rich's and ours, and empty lines."""
    console = _Collecting()
    print_to(console)
    return as_html(console.parts)


class _Collecting(Console):
    """A console that prints nothing, and keeps what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str | Table] = []

    def print(self, *objects: Any, **_options: Any) -> None:
        """Keep the parts; no objects are an empty line."""
        self.parts.extend(map(_part, objects) if objects else [""])


def _part(printed: object) -> str | Table:
    if isinstance(printed, RichTable):
        columns = [[_words(cell) for cell in column.cells] for column in printed.columns]
        headings = [_words(column.header) for column in printed.columns]
        return Table(headings, list(zip(*columns, strict=True)))
    return printed if isinstance(printed, Table) else _words(printed)


def _words(printed: object) -> str:
    if isinstance(printed, Text):
        return printed.plain
    assert isinstance(printed, str), f"{type(printed)} has no HTML yet"
    return Text.from_markup(printed).plain
