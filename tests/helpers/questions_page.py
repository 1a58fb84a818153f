"""The commands on ``docs/questions.md``."""

from __future__ import annotations

import shlex
from typing import NamedTuple

from page_examples import ROOT, blocks_of

PAGE = ROOT / "docs/questions.md"


class Command(NamedTuple):
    """A command that runs one of the programs in ``examples/``."""

    program: str
    options: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join((self.program, *self.options))

    @property
    def is_full(self) -> bool:
        """Whether it takes minutes: its options are parsed, and it is not run."""
        return "--full" in self.options


def commands() -> list[Command]:
    """Those that run a program of the page's table, in order."""
    found = []
    for block in blocks_of(PAGE):
        for line in block.code.splitlines() if block.language == "sh" else ():
            words = [word for word in shlex.split(line, comments=True) if "=" not in word]
            if words[:1] == ["python"]:
                name = words[1].removeprefix("examples/").removesuffix(".py")
                found.append(Command(name, tuple(words[2:])))
    return found
