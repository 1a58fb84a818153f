"""Every mutant of PyTorch's backend is caught by the checks that it names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from conformance_children import Told, told_in
from mutants import MUTANTS, SOUND
from mutants.mutant import TORCH

from unidev.conformance.running.child import environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_OURS = {name: each for name, each in MUTANTS.items() if each.plugin == TORCH}
IN_WORKERS = [name for name, each in _OURS.items() if each.caught_by[0].startswith("workers.")]
"""What workers do is broken in their own processes, which load the mutant as a plugin."""
FAILING = {name: each for name, each in _OURS.items() if name not in IN_WORKERS}
PASSING = {name: each for name, each in SOUND.items() if each.plugin == TORCH}
UNSUPPORTED = {"placing.spread_is_refused"}
"""PyTorch's probe has no such model; ``has_a_sharded_model`` gives it one."""


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Told]]:
    """Judges a mutant in a child process; in the end, that none of them left anything broken."""
    top = tmp_path_factory.mktemp("mutants")
    child = start(top / "output.txt")

    def judge(name: str) -> Told:
        assert child.stdin is not None
        assert child.stdout is not None
        print(json.dumps([str(top / name), name]), file=child.stdin, flush=True)
        answer = child.stdout.readline()
        assert answer == f"{name}\n", (top / "output.txt").read_text(errors="replace")[-3000:]
        return told_in(top / name)

    with child:
        yield judge
        judge("sound")
        child.communicate(timeout=60)
    found = [told_in(folder) for folder in (top / "sound").iterdir()]
    assert found
    for told in found:
        assert told.results, told.output
        wrong = {c for c, how in told.results.items() if how != "pass"} - UNSUPPORTED
        assert not wrong, [told.described(check) for check in wrong]


def start(output: Path) -> subprocess.Popen[str]:
    path = os.pathsep.join(filter(None, sys.path))
    variables = environment(2, {**os.environ, "PYTHONPATH": path})
    variables["HYPOTHESIS_STORAGE_DIRECTORY"] = str(output.with_name("hypothesis"))
    with output.open("wb") as errors:
        return subprocess.Popen(
            [sys.executable, Path(__file__).with_name("mutants_child.py")],
            env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
        )  # fmt: skip


@pytest.mark.parametrize("name", FAILING)
def test_a_mutant_fails_each_check_that_it_names(name: str, judged: Callable[[str], Told]) -> None:
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
def test_a_sound_variant_passes_what_its_broken_twins_fail(
    name: str, judged: Callable[[str], Told]
) -> None:
    found = judged(name)
    for check in PASSING[name].caught_by:
        assert found.results.get(check) == "pass", found.described(check)
