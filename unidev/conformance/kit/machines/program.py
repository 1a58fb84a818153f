"""The sequence as a program: each line is executed as it is drawn, and printed if one fails.

So what is printed is what ran. It needs nothing of the suite: `unidev`, NumPy, and the backend's
probe, which makes views and writes to tensors in the framework's own calls.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from unidev.conformance.kit.workbench import Workbench

_BEGINNING = """\
import contextlib, tempfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import unidev

unidev.set_backend({backend!r})
probe = unidev.active_backend().probe
scopes = contextlib.ExitStack()
folder = tempfile.mkdtemp()
"""
_FUNCTION = re.compile(r"unidev\.(?:nn\.)?(?:functional\.)?(\w+)")


class ProgramError(AssertionError):
    """A line of a program failed."""

    def __init__(self, message: str, lines: int) -> None:
        super().__init__(message)
        self.lines = lines
        """How many the program has."""
        self.at = time.monotonic()


class Program:
    """Lines of Python that have been executed, in names of their own."""

    def __init__(
        self, bench: Workbench, folder: str, definitions: str, failures: list[ProgramError]
    ) -> None:
        import contextlib
        from concurrent.futures import ThreadPoolExecutor

        import numpy as np

        import unidev

        self._bench, self._definitions, self._failures = bench, definitions, failures
        self._lines: list[str] = []
        self.calls: Counter[str] = Counter()
        self.scopes = contextlib.ExitStack()
        self.names: dict[str, Any] = {
            "np": np, "unidev": unidev, "probe": bench.probe, "scopes": self.scopes,
            "folder": folder, "contextlib": contextlib, "ThreadPoolExecutor": ThreadPoolExecutor,
        }  # fmt: skip
        exec(definitions, self.names)  # noqa: S102  our own text, as in the printed program

    def run(self, *lines: str) -> None:
        """Execute lines.

        Raises:
            ProgramError: one raises anything; the message has the program up to it.
        """
        for line in lines:
            self._lines.append(line)
            self.calls.update(_FUNCTION.findall(line))
            try:
                exec(line, self.names)  # noqa: S102  made by a machine of ours
            except Exception as error:  # whatever it is, the contract is that the line works
                said = "" if isinstance(error, AssertionError) else f" raises {_brief(error)}"
                failure = ProgramError(f"the last line fails{said}:\n{self}", len(self._lines))
                self._failures.append(failure)
                raise failure from error

    def check(self, *conditions: str) -> None:
        """Execute an assertion for each condition."""
        self.run(*(f"assert {condition}" for condition in conditions))

    def value(self, expression: str) -> Any:
        """What an expression is; it is not part of the program."""
        return eval(expression, self.names)  # noqa: S307  as above

    def __str__(self) -> str:
        count = self._bench.backend.simulated_count
        beginning = _BEGINNING.format(backend=self._bench.backend.name)
        lines: Iterable[str] = (f"# UNIDEV_SIMULATE={count} python program.py", beginning)
        return "\n".join([*lines, *self._needed(), *self._lines])

    def _needed(self) -> Iterable[str]:
        """The definitions of what the lines call."""
        for definition in self._definitions.split("\n\n"):
            name = definition.removeprefix("def ").partition("(")[0]
            if any(f"{name}(" in line or f"({name})" in line for line in self._lines):
                yield f"{definition}\n"


def _brief(error: Exception) -> str:
    return f"{type(error).__name__} ({str(error)[:200]})"
