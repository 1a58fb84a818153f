"""Each notebook, with what it printed while the site was built, to download from its page."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes

if TYPE_CHECKING:
    from sphinx.application import Sphinx

FOLDER = "notebooks/"


def add_link(app: Sphinx, doctree: nodes.document) -> None:
    """Add the link below the first paragraph of a notebook's page."""
    name = app.env.docname
    if not name.startswith(FOLDER):
        return
    file = f"{name.removeprefix(FOLDER)}.ipynb"
    link = nodes.reference("", file, refuri=file, internal=True)
    first = next(doctree.findall(nodes.paragraph))
    first.parent.insert(
        first.parent.index(first) + 1, nodes.paragraph("", "Download this notebook: ", link)
    )


def copy(app: Sphinx, failure: Exception | None) -> None:
    """Put the files that ran beside their pages."""
    if failure is not None or app.builder.name != "html":
        return
    for name in sorted(app.env.found_docs):
        if name.startswith(FOLDER):
            ran = Path(app.env.mystnb_config.output_folder, f"{name}.ipynb")
            shutil.copyfile(ran, Path(app.outdir, f"{name}.ipynb"))


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the links and the files."""
    app.connect("doctree-read", add_link)
    app.connect("build-finished", copy)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
