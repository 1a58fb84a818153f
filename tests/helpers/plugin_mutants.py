"""Mutants of a plugin's backend, judged in one process that has imported the framework.

A test file of a plugin imports all of this, and says of which ``BACKEND``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from conformance_children import ChildResult, result_in
from mutants import MUTANTS, SOUND
from mutants_in_workers import is_of_workers

from unidev.system.child_processes import ask_for_traceback
from unidev_conformance.running.child import environment

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT_S = 300
"""After it, a mutant hangs; none takes a hundredth of it."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The mutants and sound variants of ``BACKEND``, whose plugin may be another ``PLUGIN``.

    Those of workers come first: all are judged in one run, by one process of pytest's.
    """
    plugin = f"unidev_{getattr(metafunc.module, 'PLUGIN', metafunc.module.BACKEND)}"
    names = [name for name, each in (*MUTANTS.items(), *SOUND.items()) if each.plugin == plugin]
    metafunc.parametrize("name", sorted(names, key=lambda n: n in SOUND or not is_of_workers(n)))


@pytest.fixture(scope="module")
def judge(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Judge]:
    """Judges mutants of ``BACKEND``; in the end, that none of them left anything broken.

    ``UNSUPPORTED`` are checks that the mutants name and that the backend itself cannot pass.
    """
    top = tmp_path_factory.mktemp("mutants")
    made = Judge(request.module.BACKEND, top)
    try:
        yield made
        made("sound")
    finally:
        made.end()
    if not made.has_judged:
        return
    found = [result_in(folder) for folder in (top / "sound").iterdir()]
    assert found
    for told in found:
        assert told.results, told.output
        wrong = {c for c, how in told.results.items() if how != "pass"}
        wrong -= getattr(request.module, "UNSUPPORTED", frozenset())
        assert not wrong, [told.described(check) for check in wrong]


def test_a_mutant_fails_and_a_sound_variant_passes_each_check_that_it_names(
    name: str, judge: Judge
) -> None:
    found = judge(name)
    each, expected = (MUTANTS[name], "fail") if name in MUTANTS else (SOUND[name], "pass")
    for check in each.caught_by:
        assert found.results.get(check) == expected, found.described(check)


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
