"""The files of one bench, each written atomically, among them one self-contained HTML page."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import TYPE_CHECKING

from unidev.bench.findings import crossovers
from unidev.bench.plots import plots, to_png, to_svg
from unidev.bench.results import to_document
from unidev.bench.table import COLUMNS, TITLES, heading, rows
from unidev.system.atomic_file import write_whole
from unidev.system.child_processes import noticing_interruption

if TYPE_CHECKING:
    from pathlib import Path

    from unidev.bench.results import Bench
    from unidev.system.child_processes import Interruption


def to_html(bench: Bench, findings: list[str]) -> str:
    """The page; everything is escaped, since it can contain error messages of frameworks."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("unidev.bench", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    page: str = environment.get_template("page.html.jinja").render(
        title=f"unidev bench: {bench.backend}",
        heading=heading(bench),
        findings=findings,
        pictures=[(each.title, b64encode(to_svg(each)).decode()) for each in plots(bench)],
        columns=COLUMNS,
        tables=[
            (name, title, found) for name, title in TITLES.items() if (found := rows(bench, name))
        ],
    )
    return page


FILES = ("bench.txt", "bench.json", "bench.html", "bench.png")


def to_json(bench: Bench, findings: list[str]) -> str:
    """Everything that was measured, as JSON."""
    document = to_document(bench, findings, crossovers(bench))
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def contents(bench: Bench, findings: list[str], table: str) -> dict[str, bytes]:
    """The name and content of each file."""
    made = (table, to_json(bench, findings), to_html(bench, findings))
    return dict(zip(FILES, [*map(str.encode, made), to_png(bench)], strict=True))


def write(folder: Path, made: dict[str, bytes]) -> Interruption:
    """Write all files; Ctrl-C is deferred and returned, so that no file is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    with noticing_interruption() as stop:
        for name, data in made.items():
            write_whole(folder / name, data)
    return stop
