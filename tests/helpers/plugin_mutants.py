"""Mutants of a plugin's backend, all judged in one process that has imported the framework.

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
from conformance_children import result_in
from mutants import MUTANTS, SOUND
from once import once

from unidev.system.child_processes import ask_for_traceback
from unidev_conformance.running.child import environment

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.timeout(3600)  # the first test, or the two first, wait for all mutants
LIMIT_S = 300
"""After it, a mutant hangs; none takes a hundredth of it."""
ITSELF = "sound"
"""What stands for the backend as it is, once all mutants have been undone."""
Judged = dict[str, dict[str, tuple[str, str]]]
"""By mutant and check the result and its message; under no check, what the run has printed."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The mutants and sound variants of ``BACKEND``, whose plugin may be another ``PLUGIN``."""
    if "name" not in metafunc.fixturenames:
        return
    plugin = f"unidev_{getattr(metafunc.module, 'PLUGIN', metafunc.module.BACKEND)}"
    names = [name for name, each in (*MUTANTS.items(), *SOUND.items()) if each.plugin == plugin]
    metafunc.parametrize("name", names)


@pytest.fixture(scope="module")
def judged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """All that the chosen tests ask about mutants of ``BACKEND``, judged in one run."""
    items = [item for item in request.session.items if item.path == request.path]
    chosen = [item.callspec.params["name"] for item in items if hasattr(item, "callspec")]
    backend = request.module.BACKEND
    return once(tmp_path_factory, backend, lambda folder: _judged(backend, chosen, folder))


def _judged(backend: str, names: Sequence[str], folder: Path) -> Judged:
    judge, found = Judge(backend, folder / "0"), Judged()
    try:
        for number, name in enumerate(names, 1):
            try:
                found[name] = judge(name)
            except AssertionError as error:  # noqa: PERF203  it hangs, or has ended the process
                found[name] = {"": ("unfinished", str(error))}
                judge.end()
                judge = Judge(backend, folder / str(number))
        if any(name in MUTANTS for name in names):
            found[ITSELF] = judge(ITSELF)
    finally:
        judge.end()
    return found


def test_a_mutant_fails_and_a_sound_variant_passes_each_check_that_it_names(
    name: str, judged: Judged
) -> None:
    each, expected = (MUTANTS[name], "fail") if name in MUTANTS else (SOUND[name], "pass")
    for check in each.caught_by:
        how, said = judged[name].get(check, ("not run", judged[name][""][1]))
        assert how == expected, f"{check}: {how}: {said}"


def test_none_of_them_left_anything_broken(request: pytest.FixtureRequest, judged: Judged) -> None:
    """``UNSUPPORTED`` are checks that mutants name and that the backend itself cannot pass."""
    left_out = {"", *getattr(request.module, "UNSUPPORTED", ())}
    found = judged.get(ITSELF, {})
    assert {c: how for c, how in found.items() if how[0] != "pass" and c not in left_out} == {}
    assert len(found) > 1 or not judged.keys() & MUTANTS.keys(), found


class Judge:
    """Judges one mutant after another in a child process."""

    def __init__(self, backend: str, top: Path) -> None:
        top.mkdir()
        self._top, self._output = top, top / "output.txt"
        self._child = _start(backend, self._output)

    def __call__(self, name: str) -> dict[str, tuple[str, str]]:
        """What was told of that mutant; with one that hangs, or ends the child, it is over."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        print(json.dumps([str(self._top / name), name]), file=self._child.stdin, flush=True)
        limit = threading.Timer(LIMIT_S, self._give_up)
        limit.start()
        answer = self._child.stdout.readline()
        limit.cancel()
        assert answer == f"{name}\n", self._output.read_text(errors="replace")[-5000:]
        folders = (self._top / name).iterdir() if name == ITSELF else [self._top / name]
        found = {}
        for told in map(result_in, folders):
            found |= {
                check: (how, told.messages.get(check, "")) for check, how in told.results.items()
            }
            found[""] = "", told.output[-3000:]
        return found

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
