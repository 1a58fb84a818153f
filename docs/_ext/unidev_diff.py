"""``{unidev-diff} before.py after.py``: the second program, as changes of the first."""

from __future__ import annotations

from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def changes(before: str, after: str) -> str:
    """All lines of both programs, without their docstrings: what is removed, added and kept."""
    programs = [text.partition('"""\n')[2].strip().splitlines() for text in (before, after)]
    heading, lines = 3, max(map(len, programs))  # the names of files, and where in them
    found = list(unified_diff(*programs, n=lines, lineterm=""))[heading:]
    return "\n".join(found)


class Difference(SphinxDirective):
    """A block of code in which added and removed lines are coloured."""

    required_arguments = 2

    def run(self) -> list[nodes.Node]:
        """The block; the page depends on both files."""
        texts = []
        for name in self.arguments:
            relative, path = self.env.relfn2path(name)
            self.env.note_dependency(relative)
            texts.append(Path(path).read_text(encoding="utf-8"))
        shown = changes(*texts)
        return [nodes.literal_block(shown, shown, language="diff", classes=["no-copy"])]


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directive."""
    app.add_directive("unidev-diff", Difference)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
