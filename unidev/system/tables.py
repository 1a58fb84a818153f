"""A table and the lines around it, as text and as HTML: one shape, with the same words in both."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from unidev.system.wording import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    Parts: TypeAlias = "Iterable[str | Table]"
    """Lines and tables, from top to bottom; an empty line is a gap."""


class Table(NamedTuple):
    """Cells in columns."""

    headings: Sequence[str]
    """Empty: the rows have none."""
    rows: Sequence[Sequence[str]]
    numbers: int = 0
    """How many columns, counted from the left, are aligned to the right."""
    notes: Mapping[int, Sequence[str]] = {}
    """Lines below a row, by the row's number."""

    def lines(self) -> Iterator[str]:
        """The table as text: aligned columns, two spaces between them."""
        rows = [self.headings, *self.rows] if self.headings else [*self.rows]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        if self.headings:
            yield self._aligned(self.headings, widths)
        for number, row in enumerate(self.rows):
            yield self._aligned(row, widths)
            yield from (f"    {note}" for note in self.notes.get(number, ()))

    def __rich_console__(self, _console: object, _options: object) -> Iterator[object]:
        """For rich: its lines, with nothing in them read as markup."""
        from rich.text import Text

        yield from map(Text, self.lines())

    def _aligned(self, row: Sequence[str], widths: Sequence[int]) -> str:
        cells = [
            text.rjust(width) if column < self.numbers else text.ljust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()


def cell(text: str) -> str:
    """``text``, escaped for a cell of a table in Markdown."""
    flat = " ".join(text.split())
    for special in ("\\", "|", "*", "_", "`", "[", "]"):
        flat = flat.replace(special, f"\\{special}")
    return _html_of(flat, quote=False)  # not every program knows `\\<`


def as_text(parts: Parts) -> str:
    """``parts`` as text; a name in it cannot control a terminal."""
    lines = (part.lines() if isinstance(part, Table) else [part] for part in parts)
    return plain("\n".join(line for some in lines for line in some))


# A notebook's page has the colours, light or dark. Its style sheet aligns cells to the right.
_ALL = "overflow-x: auto"  # a table that is wider than a narrow page scrolls, and not the page
_LINE = "margin: 0.1em 0; white-space: pre-wrap; overflow-wrap: anywhere"
_TABLE = "border-collapse: collapse; margin: 0.4em 0; font-variant-numeric: tabular-nums"
_BORDER = "border: none; border-bottom: 1px solid rgba(128, 128, 128, 0.4)"
_CELL = "padding: 0.2em 1em 0.2em 0; vertical-align: top; white-space: pre-wrap"


def as_html(parts: Parts) -> str:
    """``parts`` as a piece of HTML with the same words: escaped, with no script and no colour."""
    return f'<div class="unidev" style="{_ALL}">{"".join(map(_html, parts))}</div>'


def _html(part: str | Table) -> str:
    if isinstance(part, Table):
        return _table(part)
    return f'<div style="{_LINE}">{_escaped(part)}</div>' if part else "<br>"


def _table(table: Table) -> str:
    rows = [_row(table, "th", table.headings)] if table.headings else []
    for number, row in enumerate(table.rows):
        rows.append(_row(table, "td", row))
        style = f'style="{_CELL}; border: none; text-align: left; padding-left: 2em"'
        rows += [
            f'<tr><td colspan="{len(row)}" {style}>{_escaped(note)}</td></tr>'
            for note in table.notes.get(number, ())
        ]
    return f'<table style="{_TABLE}">{"".join(rows)}</table>'


def _row(table: Table, kind: str, cells: Sequence[str]) -> str:
    border = _BORDER if kind == "th" else "border: none"
    made = []
    for column, text in enumerate(cells):
        side = "right" if column < table.numbers else "left"
        style = f"{_CELL}; {border}; text-align: {side}"
        made.append(f'<{kind} style="{style}">{_escaped(text)}</{kind}>')
    return f"<tr>{''.join(made)}</tr>"


def _escaped(text: str) -> str:
    return _html_of(plain(text), quote=True)


def _html_of(text: str, *, quote: bool) -> str:
    from html import escape  # a table of entities, which few programs need

    return escape(text, quote=quote)
