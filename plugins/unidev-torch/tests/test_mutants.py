"""Every mutant of PyTorch's backend is caught by the checks that it names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from conformance_children import Told, told_in
from mutants import MUTANTS, SOUND
from mutants.mutant import TORCH

from unidev.conformance.running.child import environment
from unidev.support.child_processes import ask_for_traceback

if TYPE_CHECKING:
    from collections.abc import Iterator

_OURS = {name: each for name, each in MUTANTS.items() if each.plugin == TORCH}
IN_WORKERS = [name for name, each in _OURS.items() if each.caught_by[0].startswith("workers.")]
"""What workers do is broken in their own processes, which load the mutant as a plugin."""
FAILING = {name: each for name, each in _OURS.items() if name not in IN_WORKERS}
PASSING = {name: each for name, each in SOUND.items() if each.plugin == TORCH}
UNSUPPORTED = {"placing.spread_is_refused"}
"""PyTorch's probe has no such model; ``has_a_sharded_model`` gives it one."""


LIMIT_S = 300
"""After it, a mutant hangs; none takes a hundredth of it."""


class Judge:
    """Judges one mutant after another in a child process."""

    def __init__(self, top: Path) -> None:
        self._top, self._output = top, top / "output.txt"
        self._child = start(self._output)

    def __call__(self, name: str) -> Told:
        """What was told of that mutant; with one that hangs, or ends the child, it is over."""
        assert self._child.poll() is None, "the child ended with an earlier mutant"
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        print(json.dumps([str(self._top / name), name]), file=self._child.stdin, flush=True)
        limit = threading.Timer(LIMIT_S, self._give_up)
        limit.start()
        answer = self._child.stdout.readline()
        limit.cancel()
        assert answer == f"{name}\n", self._output.read_text(errors="replace")[-5000:]
        return told_in(self._top / name)

    def _give_up(self) -> None:
        ask_for_traceback(self._child)
        self._child.kill()

    def end(self) -> None:
        """End the child, whatever it does."""
        self._child.kill()
        self._child.communicate()


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    """Judges mutants; in the end, that none of them left anything broken."""
    top = tmp_path_factory.mktemp("mutants")
    judge = Judge(top)
    try:
        yield judge
        judge("sound")
    finally:
        judge.end()
    found = [told_in(folder) for folder in (top / "sound").iterdir()]
    assert found
    for told in found:
        assert told.results, told.output
        wrong = {c for c, how in told.results.items() if how != "pass"} - UNSUPPORTED
        assert not wrong, [told.described(check) for check in wrong]


def start(output: Path) -> subprocess.Popen[str]:
    path = os.pathsep.join(filter(None, sys.path))
    # Where CI is set, pytest can explain what differs at any length.
    given = {**os.environ, "PYTHONPATH": path, "CI": "true"}
    variables = environment(2, given, output.parent)
    with output.open("wb") as errors:
        return subprocess.Popen(
            [sys.executable, Path(__file__).with_name("mutants_child.py")],
            env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
        )  # fmt: skip


@pytest.mark.parametrize("name", FAILING)
def test_a_mutant_fails_each_check_that_it_names(name: str, judged: Judge) -> None:
    found = judged(name)
    for check in FAILING[name].caught_by:
        assert found.results.get(check) == "fail", found.described(check)


@pytest.mark.parametrize("name", IN_WORKERS)
def test_a_mutant_of_workers_fails_each_check_that_it_names(name: str, tmp_path: Path) -> None:
    (check,) = MUTANTS[name].caught_by
    done = subprocess.run(
        [
            sys.executable, "-m", "unidev", "conform", MUTANTS[name].backend_name,
            "--profile", MUTANTS[name].profile, "--simulate", "0", "--only", check,
        ],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "UNIDEV_PLUGINS": f"mutants:{name}",
            "UNIDEV_DISABLED_PLUGINS": "torch",
            "UNIDEV_BACKEND": "",
        },
        cwd=tmp_path, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert f"fail {check} on host" in done.stdout


@pytest.mark.parametrize("name", PASSING)
def test_a_sound_variant_passes_what_its_broken_twins_fail(name: str, judged: Judge) -> None:
    found = judged(name)
    for check in PASSING[name].caught_by:
        assert found.results.get(check) == "pass", found.described(check)
