"""The results as one HTML page that needs no other file: inline SVG, no script, no link."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from unidev.bench.plots import plots
from unidev.bench.rows import COLUMNS, TITLES, heading, rows
from unidev.bench.svg import to_svg

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unidev.bench.results import Bench

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2733; --paper: #fff; --line: #d5dbe1; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e9ee; --paper: #14191f; --line: #38424d; }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; font-size: .875rem; }
th, td { text-align: left; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid var(--line); }
td { font-variant-numeric: tabular-nums; }
svg { width: 100%; height: auto; }
svg text { font: 12px system-ui, sans-serif; fill: var(--ink); stroke: none; }
svg .grid { stroke: var(--line); fill: none; }
.scroll { overflow-x: auto; }
"""


def to_html(bench: Bench, findings: list[str]) -> str:
    """The page; all is escaped, since errors in it hold what a framework said."""
    return "\n".join(_lines(bench, findings)) + "\n"


def _lines(bench: Bench, findings: list[str]) -> Iterator[str]:
    title = f"unidev bench: {bench.backend}"
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>"
    yield f"<h1>{escape(title)}</h1>"
    yield f"<p>{'<br>'.join(escape(line) for line in heading(bench))}</p>"
    yield "<h2>What the timings say</h2>\n<ul>"
    yield from (f"<li>{escape(each)}</li>" for each in findings)
    yield "</ul>"
    for plot in plots(bench):
        yield f"<h2>{escape(plot.title)}</h2>"
        yield to_svg(plot)
    for subject, name in TITLES.items():
        yield from _table(bench, subject, name)
    yield "<p>Medians; between the two numbers beside them lie half of all timings.</p>"
    yield "</body>\n</html>"


def _table(bench: Bench, subject: str, name: str) -> Iterator[str]:
    found = rows(bench, subject)
    if not found:
        return
    yield f'<h2>{escape(name)}</h2>\n<div class="scroll"><table data-subject="{subject}">'
    yield "<tr>" + "".join(f"<th>{escape(column)}</th>" for column in COLUMNS) + "</tr>"
    for row in found:
        yield "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
    yield "</table></div>"
