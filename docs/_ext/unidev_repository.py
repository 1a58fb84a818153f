"""Links from the site to files of the repository: of each object's source, and those in the pages.

A page links to a file by its path, ``[the contract](../unidev/contract/backend.py)``, which works
on the repository's own pages. Here it becomes a link to the repository.
"""

from __future__ import annotations

import inspect
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]


def url_of(path: Path, lines: tuple[int, int] | None = None, *, config: Any) -> str:
    """The address of a file or a folder of the repository, and of lines in it."""
    kind = "tree" if path.is_dir() else "blob"
    where = f"{config.repository_url}/{kind}/{config.repository_branch}"
    fragment = f"#L{lines[0]}-L{lines[1]}" if lines else ""
    return f"{where}/{path.relative_to(ROOT).as_posix()}{fragment}"


class RepositoryLinks(SphinxTransform):
    """Turns links to files that are not pages of the site into links to the repository."""

    default_priority = 5  # before Sphinx collects files to be downloaded

    def apply(self, **_options: Any) -> None:
        """Replace each of them in one page."""
        pages = Path(self.env.srcdir)
        folder = Path(self.env.doc2path(self.env.docname)).parent
        for node in list(self.document.findall()):
            if not isinstance(node, (addnodes.download_reference, addnodes.pending_xref)):
                continue
            if node.get("reftype") != "myst":
                continue
            target = unquote(node["reftarget"].partition("#")[0])
            is_page = node.get("refdomain") == "doc"
            path = pages / f"{target}.md" if is_page else folder / target
            self._replace(node, Path(os.path.normpath(path)), pages)

    def _replace(self, node: nodes.Element, path: Path, pages: Path) -> None:
        is_page = path.suffix == ".md" and pages in path.parents
        if is_page or not path.exists() or ROOT not in path.parents:
            return
        link = nodes.reference(refuri=url_of(path, config=self.config), internal=False)
        link += node.children
        node.replace_self(link)


def source_of(domain: str, info: dict[str, str], config: Any) -> str | None:
    """The address of an object's source; None if it has no lines of its own."""
    if domain != "py":
        return None
    found: Any = sys.modules.get(info["module"])
    try:
        for name in info["fullname"].split("."):
            found = inspect.getattr_static(found, name, None) or getattr(found, name)
        if isinstance(found, property):
            found = found.fget
        elif isinstance(found, (classmethod, staticmethod)):
            found = found.__func__
        lines, first = inspect.getsourcelines(inspect.unwrap(found))
        path = Path(inspect.getsourcefile(inspect.unwrap(found)) or "").resolve()
    except (AttributeError, OSError, TypeError):  # an attribute: its class has the link
        return None
    if ROOT not in path.parents:
        return None
    return url_of(path, (first, first + len(lines) - 1), config=config)


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the two kinds of links."""
    app.add_config_value("repository_url", "", "env", str)
    app.add_config_value("repository_branch", "main", "env", str)
    app.add_transform(RepositoryLinks)
    app.connect("config-inited", _resolve_sources)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _resolve_sources(_app: Sphinx, config: Any) -> None:
    config.linkcode_resolve = lambda domain, info: source_of(domain, info, config)
