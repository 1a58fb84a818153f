"""``{unidev-diff} before.py after.py``: the second program, as changes of the first.

With the option ``unnumbered``, comments that number steps (``# 3``) are left out of both.
"""

from __future__ import annotations

import re
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_NUMBER = re.compile(r"  # \d$", re.MULTILINE)


def changes(before: str, after: str) -> str:
    """All lines of both programs, without their docstrings: what is removed, added and kept."""
    programs = [text.partition('"""\n')[2].strip().splitlines() for text in (before, after)]
    heading, lines = 3, max(map(len, programs))  # the names of files, and where in them
    found = list(unified_diff(*programs, n=lines, lineterm=""))[heading:]
    return "\n".join(found)


class Difference(SphinxDirective):
    """A block of code in which added and removed lines are coloured."""

    required_arguments = 2
    option_spec = {"unnumbered": directives.flag}  # noqa: RUF012  - docutils reads it so

    def run(self) -> list[nodes.Node]:
        """The block; the page depends on both files."""
        texts = []
        for name in self.arguments:
            relative, path = self.env.relfn2path(name)
            self.env.note_dependency(relative)
            text = Path(path).read_text(encoding="utf-8")
            texts.append(_NUMBER.sub("", text) if "unnumbered" in self.options else text)
        shown = changes(*texts)
        return [nodes.literal_block(shown, shown, language="diff", classes=["no-copy"])]


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directive."""
    app.add_directive("unidev-diff", Difference)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
