"""The results as one self-contained HTML page: embedded pictures, no scripts, no links."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING

from unidev.bench.picture import to_svg
from unidev.bench.plots import plots
from unidev.bench.rows import COLUMNS, TITLES, heading, rows

if TYPE_CHECKING:
    from unidev.bench.results import Bench


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
