"""The code in README and the pages of ``docs``: which of it runs, and on which backends.

A block of Python is a program, run on NumPy with and without simulated GPUs. A comment before it
says otherwise:

    <!-- on: torch -->              on these backends instead, where they are installed
    <!-- with: torch tensorflow --> once, with two simulated GPUs, where all of these are installed
    <!-- as cuda -->                on PyTorch, with two simulated GPUs that answer to `cuda`
    <!-- continued -->              after the blocks above it on the page, as one program
    <!-- run by pytest -->          as tests, by tests/pytest_plugin/test_testing_guide.py
    <!-- not run: two machines -->  not at all, and why
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
GUIDES = [path for path in ROOT.glob("docs/**/*.md") if "_build" not in path.parts]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *GUIDES])
_NOTE = re.compile(
    r"<!-- ((?:on|with): [a-z ]+|as cuda|continued|run by pytest|not run: .+) -->\n?"
)


class Block(NamedTuple):
    """A block of code on a page."""

    page: str
    line: int
    language: str
    code: str
    note: str

    @property
    def is_run(self) -> bool:
        return self.language == "python" and not self.note.startswith(("run by", "not run"))

    @property
    def modules(self) -> list[str]:
        return self.note[6:].split() if self.note.startswith("with: ") else []

    @property
    def is_for_cuda(self) -> bool:
        return self.note == "as cuda"

    @property
    def backends(self) -> list[str]:
        if self.modules or self.is_for_cuda:
            return []
        return self.note[4:].split() if self.note.startswith("on: ") else ["numpy"]


def blocks_of(page: Path) -> list[Block]:
    """Every block on the page, also indented ones, whose language is empty."""
    found: list[Block] = []
    note = ""
    for token in MarkdownIt().enable("table").parse(page.read_text(encoding="utf-8")):
        if token.type in ("fence", "code_block"):
            name = page.relative_to(ROOT).as_posix()
            line = (token.map or [0])[0] + 1
            found.append(Block(name, line, token.info.strip(), token.content, note))
        comment = _NOTE.fullmatch(token.content) if token.type == "html_block" else None
        note = comment[1] if comment else ""
    return found


def programs_of(page: Path) -> list[Block]:
    """The blocks that run; one that is continued has the code of those that it continues."""
    found: list[Block] = []
    for block in blocks_of(page):
        if not block.is_run:
            continue
        if block.note == "continued":
            before = found[-1]
            found.append(block._replace(code=before.code + block.code, note=before.note))
        else:
            found.append(block)
    return found


BLOCKS = [block for page in PAGES for block in blocks_of(page)]
PROGRAMS = [program for page in PAGES for program in programs_of(page)]
