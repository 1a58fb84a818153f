"""Each page as Markdown beside it, ``devices.html.md``, and ``llms.txt``, which lists them.

By the convention of https://llmstxt.org: programs that read documentation get it without the site's
frame. What is made from the code, as the reference is, is in it as well. ``llms-full.txt`` has all
pages in one file.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx import addnodes
from sphinx.util import logging
from sphinx_markdown_builder.builder import MarkdownBuilder
from sphinx_markdown_builder.translator import MarkdownTranslator

if TYPE_CHECKING:
    from sphinx.application import Sphinx


log = logging.getLogger(__name__)

LANGUAGES = {"ipython3": "python", "myst-ansi": "text"}


class Translator(MarkdownTranslator):  # type: ignore[misc, unused-ignore]
    """Passes over what is not text, and keeps what the base class would leave out."""

    def visit_caption(self, node: nodes.Element) -> None:
        """The name of a program, as a line of its own."""
        self.add(f"`{node.astext()}`:", prefix_eol=2, suffix_eol=2)
        raise nodes.SkipNode

    def visit_abbreviation(self, node: nodes.Element) -> None:
        """The marks of keyword-only and positional-only arguments: * and /."""
        self.add(node.astext())
        raise nodes.SkipNode

    def visit_literal_block(self, node: nodes.Element) -> None:
        """Cells of notebooks and what they print, in languages that others know."""
        node["language"] = LANGUAGES.get(node["language"], node["language"])
        super().visit_literal_block(node)

    def visit_meta(self, _node: nodes.Element) -> None:
        """Words for the search."""
        raise nodes.SkipNode

    def visit_raw(self, _node: nodes.Element) -> None:
        """HTML, such as the tables of notebooks."""
        raise nodes.SkipNode


class PageBuilder(MarkdownBuilder):  # type: ignore[misc, unused-ignore]
    """Writes pages beside those of HTML, and links to one another."""

    name = "page-markdown"
    default_translator_class = Translator

    def init(self) -> None:
        """Their names end with this."""
        super().init()
        self.out_suffix = ".html.md"

    def get_target_uri(self, docname: str, typ: str | None = None) -> str:
        """The address of a page."""
        del typ
        return f"{docname}.html.md"


def write(app: Sphinx, failure: Exception | None) -> None:
    """Write all of it once the site is there, by a second build from what this one has read."""
    if failure is not None or app.builder.name != "html":
        return
    command = [sys.executable, "-m", "sphinx", "--builder", PageBuilder.name, "--fail-on-warning"]
    places = ["--doctree-dir", str(app.doctreedir), str(app.srcdir), str(app.outdir)]
    done = subprocess.run([*command, "--keep-going", "--quiet", *places], check=False)
    if done.returncode:
        log.warning("the pages as Markdown: exit status %s", done.returncode)
        return
    folder = Path(app.outdir)
    listed = _listed(app)
    (folder / "llms.txt").write_text(_index(app, listed), encoding="utf-8")
    in_order = [name for _, names in listed for name in names]
    texts = [(folder / f"{name}.html.md").read_text(encoding="utf-8") for name in in_order]
    (folder / "llms-full.txt").write_text("\n\n".join(texts), encoding="utf-8")


def _listed(app: Sphinx) -> list[tuple[str, list[str]]]:
    """The pages below each caption of the first page's lists."""
    root = app.config.root_doc
    found = []
    for tree in app.env.get_doctree(root).findall(addnodes.toctree):
        names = [name for name in tree["includefiles"] for name in _with_those_below(app, name)]
        found.append((tree["caption"], names))
    return found


def _with_those_below(app: Sphinx, name: str) -> list[str]:
    below = app.env.toctree_includes.get(name, [])
    return [name, *(each for other in below for each in _with_those_below(app, other))]


def _index(app: Sphinx, listed: list[tuple[str, list[str]]]) -> str:
    root = app.config.root_doc
    lines = [f"# {app.config.html_title}", "", f"> {_first_words(app, root)}"]
    for caption, names in listed:
        lines += ["", f"## {caption}", ""]
        for name in names:
            title = app.env.titles[name].astext()
            lines.append(f"- [{title}]({name}.html.md): {_first_words(app, name)}")
    return "\n".join(lines) + "\n"


def _first_words(app: Sphinx, name: str) -> str:
    """The first sentence of a page's text, in one line."""
    for paragraph in app.env.get_doctree(name).findall(nodes.paragraph):
        if isinstance(paragraph.parent, nodes.section):
            sentence = re.split(r"(?<=[.!?])\s", paragraph.astext(), maxsplit=1)[0]
            return " ".join(sentence.split()).rstrip(":")
    return app.env.titles[name].astext()


def announce(
    app: Sphinx, page: str, _template: str, context: dict[str, Any], _tree: nodes.document | None
) -> None:
    """Name the Markdown in the head of each page."""
    if page in app.env.found_docs:
        name = page.rpartition("/")[2]
        link = f'<link rel="alternate" type="text/markdown" href="{name}.html.md">'
        context["metatags"] = f"{context.get('metatags', '')}\n{link}"


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the files after the build."""
    app.setup_extension("sphinx_markdown_builder")
    app.add_builder(PageBuilder)
    app.connect("html-page-context", announce)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
