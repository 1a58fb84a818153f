"""The sequence as a program: each line is executed as it is drawn, and printed if one fails.

So what is printed is what ran. It needs nothing of the suite: `unidev`, NumPy, and the backend's
probe, which makes views and writes to tensors in the framework's own calls.
"""

from __future__ import annotations

import ast
import re
import tempfile
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from unidev_conformance.kit.differences import compared

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Callable, Iterable, Sequence

    from unidev_conformance.kit.workbench import Workbench

_BEGINNING = {
    "contextlib": "import contextlib", "tempfile": "import tempfile",
    "threading": "import threading",
    "ThreadPoolExecutor": "from concurrent.futures import ThreadPoolExecutor",
    "np": "import numpy as np", "unidev": "import unidev", "scopes": "scopes = []",
    "probe": "probe = unidev.active_backend().probe", "folder": "folder = tempfile.mkdtemp()",
}  # fmt: skip
"""What a program may begin with, by the names that its lines then have."""
_OF_ONE_TENSOR = re.compile(r"[mt]\d+(\[.*])? = ")
_FUNCTION = re.compile(r"unidev\.(?:nn\.)?(?:functional\.)?(\w+)")
_WORD = re.compile(r"\w+")


class Step(NamedTuple):
    """A call of a rule."""

    rule: str
    positions: list[int]
    """The positions of its picks, each among its choices."""


class ProgramError(AssertionError):
    """A line of a program failed."""

    def __init__(self, message: str, program: Program) -> None:
        super().__init__(f"{message}:\n{program}")
        self.message = message
        self.program = program

    def is_like(self, other: ProgramError) -> bool:
        """Whether the same line fails in the same way."""
        mine, others = (each.program.blocks[-1].lines[-1] for each in (self, other))
        kinds = [each.message.partition(": ")[0] for each in (self, other)]
        return mine == others and kinds[0] == kinds[1]

    def shortened(self, end: float) -> ProgramError:
        """The failure of the same program without the lines that do not matter to it.

        Then also without tensors and models that change nothing of what is found and expected.
        """
        failure = self._without(end, self.is_like)
        program = failure.program
        program.blocks = [Block((x,), not _OF_ONE_TENSOR.match(x)) for x in program.lines()]
        return failure._without(end, lambda found: found.message == failure.message)

    def _without(self, end: float, is_same: Callable[[ProgramError], bool]) -> ProgramError:
        failure, blocks = self, self.program.blocks
        for number in range(len(blocks) - 2, -1, -1):
            if blocks[number].is_needed or time.process_time() > end:
                continue
            shorter = [*blocks[:number], *blocks[number + 1 :]]
            found = self.program.failure_of(shorter)
            if found is not None and is_same(found):
                failure, blocks = found, shorter
        return failure


class Block(NamedTuple):
    """Lines that belong together."""

    lines: tuple[str, ...]
    is_needed: bool


class Program:
    """Lines of Python that have been executed, in names of their own."""

    def __init__(self, bench: Workbench, folder: str, definitions: str) -> None:
        self._bench, self._definitions = bench, definitions
        self.blocks: list[Block] = []
        self.calls: Counter[str] = Counter()
        self._scopes: list[contextlib.ExitStack] = []
        imports = [each for each in _BEGINNING.values() if "import" in each]
        self.names: dict[str, Any] = {}
        exec("\n".join([*imports, definitions]), self.names)  # noqa: S102  ours, as it is printed
        self.names |= {"probe": bench.probe, "scopes": self._scopes, "folder": folder}
        self._defined = _BEGINNING | _by_name(definitions)

    def run(self, *lines: str) -> None:
        """Execute lines.

        Raises:
            ProgramError: one raises anything; the message has the program up to it.
        """
        self._run(lines, is_needed=True)

    def run_if_it_matters(self, *lines: str) -> None:
        """Execute lines that later ones do not need: a failure may be the same without them."""
        self._run(lines, is_needed=False)

    def check(self, *conditions: str) -> None:
        """Execute an assertion for each condition."""
        for condition in conditions:
            self.run_if_it_matters(f"assert {condition}")

    def value(self, expression: str) -> Any:
        """Evaluate an expression with the program's names, without adding it to the program."""
        return eval(expression, self.names)  # noqa: S307  as above

    def failure_of(self, blocks: Sequence[Block]) -> ProgramError | None:
        """How other blocks fail, executed in new names and a new folder, if they do."""
        with tempfile.TemporaryDirectory(prefix="unidev-sequence-") as folder:
            other = Program(self._bench, folder, self._definitions)
            try:
                for block in blocks:
                    other._run(block.lines, is_needed=block.is_needed)
            except ProgramError as error:
                return error
            finally:
                other.close()
        return None

    def close(self) -> None:
        """Leave the scopes, and drop everything: an error would keep it for the next program."""
        while self._scopes:
            self._scopes.pop().close()
        self.names.clear()

    def _run(self, lines: tuple[str, ...], *, is_needed: bool) -> None:
        for number, line in enumerate(lines, 1):
            self._count(line)
            self._bench.evidence.show_life()
            try:
                exec(line, self.names)  # noqa: S102  made by a machine of ours
            except Exception as error:  # whatever it is, the contract is that the line works
                said = self._sides(line, error)
                self.blocks.append(Block(lines[:number], is_needed))
                raise ProgramError(f"the last line {said}", self) from error
        self.blocks.append(Block(lines, is_needed))

    def _sides(self, line: str, error: Exception) -> str:
        """What the line raises; of an assertion, what it found, and what it expected."""
        if not isinstance(error, AssertionError):
            return f"raises {_brief(error)}"
        said = str(error) or compared(getattr(ast.parse(line).body[0], "test", None), self.value)
        return f"fails: {said}" if said else "fails"

    def _count(self, line: str) -> None:
        for text in (line, *(self._defined[n] for n in _WORD.findall(line) if n in self._defined)):
            self.calls.update(_FUNCTION.findall(text))

    def __str__(self) -> str:
        backend = self._bench.backend
        setting = f"UNIDEV_BACKEND={backend.name} UNIDEV_SIMULATE={backend.simulated_count}"
        return "\n".join([f"# {setting} python program.py", *self._needed(), *self.lines()])

    def lines(self) -> list[str]:
        """What has been executed, without what it begins with."""
        return [line for block in self.blocks for line in block.lines]

    def _needed(self) -> Iterable[str]:
        """The imports and definitions that the lines need, and that those need."""
        missing = self.lines()
        needed: set[str] = set()
        while missing:
            names = set(_WORD.findall(missing.pop())) & self._defined.keys() - needed
            needed |= names
            missing += [self._defined[name] for name in names]
        for name, definition in self._defined.items():
            if name in needed:
                yield definition


def _by_name(definitions: str) -> dict[str, str]:
    """Each function's text."""
    texts = definitions.strip().split("\n\n") if definitions else []
    return {text.removeprefix("def ").partition("(")[0]: text for text in texts}


def _brief(error: Exception) -> str:
    return f"{type(error).__name__} ({str(error)[:200]})"
