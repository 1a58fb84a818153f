"""Mutants of a plugin's backend, judged in one process that has imported the framework."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from conformance_children import ChildResult, result_in
from mutants import MUTANTS, SOUND

from unidev.system.child_processes import ask_for_traceback
from unidev_conformance.running.child import environment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mutants.mutant import Mutant

LIMIT_S = 300
"""After it, a mutant hangs; none takes a hundredth of it."""


def mutants_of(plugin: str) -> dict[str, Mutant]:
    """The mutants of that plugin's backend, by name."""
    return {name: each for name, each in MUTANTS.items() if each.plugin == plugin}


def sound_variants_of(plugin: str) -> dict[str, Mutant]:
    """The variants of that plugin's backend in which nothing is broken, by name."""
    return {name: each for name, each in SOUND.items() if each.plugin == plugin}


class Judge:
    """Judges one mutant after another in a child process."""

    def __init__(self, backend: str, top: Path) -> None:
        self._top, self._output = top, top / "output.txt"
        self.has_judged = False
        """Whether any was a mutant: a worker of pytest-xdist may get sound variants alone."""
        self._child = _start(backend, self._output)

    def __call__(self, name: str) -> ChildResult:
        """What was told of that mutant; with one that hangs, or ends the child, it is over."""
        assert self._child.poll() is None, "the child ended with an earlier mutant"
        self.has_judged |= name in MUTANTS
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        print(json.dumps([str(self._top / name), name]), file=self._child.stdin, flush=True)
        limit = threading.Timer(LIMIT_S, self._give_up)
        limit.start()
        answer = self._child.stdout.readline()
        limit.cancel()
        assert answer == f"{name}\n", self._output.read_text(errors="replace")[-5000:]
        return result_in(self._top / name)

    def _give_up(self) -> None:
        ask_for_traceback(self._child)
        self._child.kill()

    def end(self) -> None:
        """End the child, whatever it does."""
        self._child.kill()
        self._child.communicate()


@contextmanager
def judging(backend: str, top: Path, *, unsupported: frozenset[str]) -> Iterator[Judge]:
    """Judges mutants of ``backend``; in the end, that none of them left anything broken.

    ``unsupported`` are checks that the mutants name and that the backend itself cannot pass.
    """
    judge = Judge(backend, top)
    try:
        yield judge
        judge("sound")
    finally:
        judge.end()
    if not judge.has_judged:
        return
    found = [result_in(folder) for folder in (top / "sound").iterdir()]
    assert found
    for told in found:
        assert told.results, told.output
        wrong = {c for c, how in told.results.items() if how != "pass"} - unsupported
        assert not wrong, [told.described(check) for check in wrong]


def check_caught(name: str, judge: Judge) -> None:
    """The mutant fails each check that it names."""
    found = judge(name)
    for check in MUTANTS[name].caught_by:
        assert found.results.get(check) == "fail", found.described(check)


def check_passed(name: str, judge: Judge) -> None:
    """The sound variant passes each check that it names."""
    found = judge(name)
    for check in SOUND[name].caught_by:
        assert found.results.get(check) == "pass", found.described(check)


def _start(backend: str, output: Path) -> subprocess.Popen[str]:
    path = os.pathsep.join(filter(None, sys.path))
    # Where CI is set, pytest can explain what differs at any length.
    given = {**os.environ, "PYTHONPATH": path, "CI": "true"}
    variables = environment(2, given, output.parent)
    with output.open("wb") as errors:
        return subprocess.Popen(
            [sys.executable, Path(__file__).with_name("mutants_child.py"), backend],
            env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
        )  # fmt: skip
