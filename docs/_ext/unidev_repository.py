"""Links from pages to files of the repository lead to the site's own copies of them.

A page links to a file by its path, ``[the contract](../unidev/contract/backend.py)``, which works
on the repository's own pages. Here it becomes a link to the page that shows that file, and where
no page does, to a copy, which is made for it: the site needs no other place.
"""

from __future__ import annotations

import os
import re
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from docutils import nodes
from pygments.lexers import get_lexer_for_filename
from pygments.util import ClassNotFound
from sphinx import addnodes
from sphinx.transforms import SphinxTransform
from sphinx.util.osutil import relative_uri

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

ROOT = Path(__file__).resolve().parents[2]
COPIES = "files"
"""The folder of the site that has the copies."""

# With no option but this one, an inclusion shows the whole file.
_INCLUSION = re.compile(r"^```\{(?:literal)?include\} (\S+)\n((?::\S+:.*\n)*)```", re.MULTILINE)
_OF_A_PART = re.compile(r":(start-|end-|lines|diff|pyobject)")


def shown_files(pages: Path) -> dict[Path, str]:
    """The page that shows each file in full; the first one, by name, if there are several."""
    found = {ROOT / "README.md": "index"}  # which says the same, for readers of the site
    for page in sorted(pages.rglob("*.md")):
        if "_build" in page.parts:
            continue
        for target, options in _INCLUSION.findall(page.read_text(encoding="utf-8")):
            if not _OF_A_PART.search(options):
                path = Path(os.path.normpath(page.parent / target))
                found.setdefault(path, page.relative_to(pages).with_suffix("").as_posix())
    return found


class RepositoryLinks(SphinxTransform):
    """Replaces links to files that are not pages of the site."""

    default_priority = 5  # before Sphinx collects files to be downloaded

    def apply(self, **_options: Any) -> None:
        """Replace each of them in one page."""
        page = Path(self.env.doc2path(self.env.docname))
        for node in list(self.document.findall()):
            if not isinstance(node, (addnodes.download_reference, addnodes.pending_xref)):
                continue
            if node.get("reftype") == "myst":
                target, _, anchor = unquote(node["reftarget"]).partition("#")
                source = Path(node.source or page)  # another file's, in what is included
                if node.get("refdomain") == "doc":
                    folder, target = Path(self.env.srcdir), f"{target}.md"
                else:
                    folder = source.parent
                path = Path(os.path.normpath(folder / target))
                self._replace(node, path, node.get("reftargetid") or anchor)

    def _replace(self, node: nodes.Element, path: Path, anchor: str) -> None:
        if not path.exists() or ROOT not in path.parents:
            return
        if path.is_dir():
            path /= "README.md"
        pages = Path(self.env.srcdir)
        link: nodes.Element
        if path.suffix == ".md" and pages in path.parents:
            link = addnodes.pending_xref(
                refdomain="doc", reftype="myst", refdoc=self.env.docname,
                refexplicit=node["refexplicit"],
                reftarget=path.relative_to(pages).with_suffix("").as_posix(), reftargetid=anchor,
            )  # fmt: skip
        else:
            link = nodes.reference(refuri=self._address(path), internal=True)
        link += node.children
        node.replace_self(link)

    def _address(self, path: Path) -> str:
        shown = self.env.unidev_shown.get(path)
        if shown is None or shown == self.env.docname:
            self.env.unidev_copied.setdefault(self.env.docname, set()).add(path)
            shown = _copy_of(path)
        return relative_uri(f"{self.env.docname}.html", f"{shown}.html")


def _copy_of(path: Path) -> str:
    return f"{COPIES}/{path.relative_to(ROOT).as_posix()}"


def copies(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """A page for each file to which some page links and which none shows."""
    for path in sorted(set().union(*app.env.unidev_copied.values())):
        name = path.relative_to(ROOT).as_posix()
        body = f"<h1>{escape(name)}</h1>\n{_highlighted(path, app)}"
        yield _copy_of(path), {"title": name, "body": body}, "page.html"


def _highlighted(path: Path, app: Sphinx) -> str:
    try:
        language = get_lexer_for_filename(path.name).aliases[0]
    except ClassNotFound:
        language = "text"
    text = path.read_text(encoding="utf-8")
    return str(app.builder.highlighter.highlight_block(text, language))


def _start(app: Sphinx) -> None:
    app.env.unidev_shown = shown_files(Path(app.srcdir))
    if not hasattr(app.env, "unidev_copied"):
        app.env.unidev_copied = {}


def _forget(_app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    env.unidev_copied.pop(docname, None)


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the transform and the copies."""
    app.add_transform(RepositoryLinks)
    app.connect("builder-inited", _start)
    app.connect("env-purge-doc", _forget)
    app.connect("html-collect-pages", copies)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
