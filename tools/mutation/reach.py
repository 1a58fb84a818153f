"""The checks that enter each function: a fault in it is judged by these alone.

A run of the sound suite on a copy whose functions note who called them. A fault outside of any
function, in a signature, or in a function that something other than a check calls (the child's
start, a process whose environment is its own) is judged by all checks.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from typing import TYPE_CHECKING

from mutation.faults import definitions_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from mutation.faults import Fault

_NOTES = "mutation_reach"
_MODULE = '''\
"""Notes which check enters which function."""

import os

_noted = set()


def enter(number):
    entry = f"{number} {os.environ.get('PYTEST_CURRENT_TEST', '')}\\n"
    if entry not in _noted:
        _noted.add(entry)
        file = os.open(__file__ + ".txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, entry.encode())  # whole: other processes write to it, too
        os.close(file)
'''
_TEST = re.compile(r"test_(\w+)\.py::test_(\w+)")


class Reach:
    """Which checks enter the function of each fault."""

    def __init__(self, copy: Path, faults: Sequence[Fault]) -> None:
        """Have the functions of ``faults`` noted in ``copy``; ``read`` after a run of the suite."""
        self._notes = copy / f"{_NOTES}.py.txt"
        self._numbers: dict[tuple[str, int], int] = {}
        self._checks: dict[int, set[str]] = {}
        by_module: dict[str, set[int]] = defaultdict(set)
        for fault in faults:
            body = _body(copy / fault.module, fault.line)
            if body is not None:
                by_module[fault.module].add(body)
        for module, bodies in by_module.items():
            numbered = {line: len(self._numbers) + i for i, line in enumerate(sorted(bodies))}
            self._numbers |= {(module, line): number for line, number in numbered.items()}
            _instrument(copy / module, numbered)
        (copy / f"{_NOTES}.py").write_text(_MODULE, encoding="utf-8")

    def read(self, checks: Iterable[str]) -> None:
        """Read what a run of ``checks``, all of the profile, has noted."""
        groups: dict[str, set[str]] = defaultdict(set)
        for check in checks:
            groups[check.partition(".")[0]].add(check)
        everything = set().union(*groups.values())
        self._checks = {number: set() for number in self._numbers.values()}
        lines = self._notes.read_text(encoding="utf-8") if self._notes.exists() else ""
        for line in lines.splitlines():
            number, _, test = line.partition(" ")
            found = _TEST.search(test)
            # Checks of a group may look at what one process of the group has done.
            entered = groups.get(found[1], everything) if found else everything
            self._checks[int(number)] |= entered

    def checks(self, root: Path, fault: Fault) -> frozenset[str] | None:
        """The ids of the checks that can notice the fault; None: any can."""
        body = _body(root / fault.module, fault.line)
        if body is None:
            return None
        return frozenset(self._checks[self._numbers[fault.module, body]])


def _body(module: Path, line: int) -> int | None:
    """The first line of the body of the function around ``line``; None outside of any."""
    around = definitions_at(module.read_text(encoding="utf-8"), line)
    if not around or isinstance(around[-1], ast.ClassDef):
        return None
    first = _first_line(_statements(around[-1])[0])
    return first if first <= line else None


def _statements(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> list[ast.stmt]:
    is_documented = ast.get_docstring(function, clean=False) is not None
    return function.body[1:] if is_documented and len(function.body) > 1 else function.body


def _first_line(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(each.lineno for each in decorators)])


def _instrument(path: Path, numbers: Mapping[int, int]) -> None:
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    starts = {}
    for node in ast.walk(ast.parse("".join(lines))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            statement = _statements(node)[0]
            starts[_first_line(statement)] = statement.col_offset
    for line, number in numbers.items():
        text, column = lines[line - 1].encode(), starts[line]
        call = f"__import__({_NOTES!r}).enter({number})"
        before, after = text[:column].decode(), text[column:].decode()
        # Behind a colon on the same line only a simple statement can follow.
        lines[line - 1] = f"{before}{call}\n{text.decode()}" if not before.strip() else (
            f"{before}{call}; {after}"
        )  # fmt: skip
    path.write_text("".join(lines), encoding="utf-8")
