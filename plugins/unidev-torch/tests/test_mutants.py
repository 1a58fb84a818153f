"""Every mutant of PyTorch's backend is caught by the checks that it names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conformance_children import Told, told_in
from mutants import MUTANTS, SOUND
from mutants.mutant import TORCH

from unidev.conformance.running.child import environment

FAILING = {name: each for name, each in MUTANTS.items() if each.plugin == TORCH}
PASSING = {name: each for name, each in SOUND.items() if each.plugin == TORCH}
CHILDREN = 2
"""As many processes at once; each imports PyTorch, and judges its share."""
LIMIT_S = 600
UNSUPPORTED = {"placing.spread_is_refused"}
"""``has_a_sharded_model`` passes it."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A folder for each child, with what it told of each of its mutants."""
    names = list({**FAILING, **PASSING})
    folders = [tmp_path_factory.mktemp("mutants") for _ in range(CHILDREN)]
    children = [start(folder, names[number::CHILDREN]) for number, folder in enumerate(folders)]
    for child, folder in zip(children, folders, strict=True):
        assert child.wait(LIMIT_S) == 0, (folder / "output.txt").read_text()[-3000:]
    return folders


def start(folder: Path, names: list[str]) -> subprocess.Popen[bytes]:
    path = os.pathsep.join(filter(None, sys.path))
    program = Path(__file__).with_name("mutants_child.py")
    with (folder / "output.txt").open("wb") as output:
        return subprocess.Popen(
            [sys.executable, program, folder, *names],
            env={
                **environment(2, {**os.environ, "PYTHONPATH": path}),
                "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "hypothesis"),
                "OMP_NUM_THREADS": "1",
            },
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def told(name: str, folders: list[Path]) -> Told:
    (folder,) = (each for each in folders if (each / name).exists())
    return told_in(folder / name)


@pytest.mark.parametrize("name", FAILING)
def test_a_mutant_fails_each_check_that_it_names(name: str, folders: list[Path]) -> None:
    found = told(name, folders)
    for check in FAILING[name].caught_by:
        assert found.results.get(check) == "fail", found.described(check)


@pytest.mark.parametrize("name", PASSING)
def test_a_sound_variant_passes_what_its_broken_twins_fail(name: str, folders: list[Path]) -> None:
    found = told(name, folders)
    for check in PASSING[name].caught_by:
        assert found.results.get(check) == "pass", found.described(check)


@pytest.mark.parametrize("profile", ["tensor", "train"])
def test_no_mutant_leaves_anything_broken_to_the_next(profile: str, folders: list[Path]) -> None:
    named = {c for each in FAILING.values() if each.profile == profile for c in each.caught_by}
    seen = set()
    for each in folders:
        if (each / f"sound-{profile}").exists():
            found = told_in(each / f"sound-{profile}")
            seen |= set(found.results)
            wrong = {c for c, how in found.results.items() if how != "pass"}
            assert wrong <= UNSUPPORTED, [found.described(check) for check in wrong]
    assert seen == named
