"""Every mutant of PyTorch's backend is caught by the checks that it names."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from mutants.mutant import TORCH
from plugin_mutants import Judge, check_caught, judging, mutants_of, sound_variants_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_OURS, _SOUND = mutants_of(TORCH), sound_variants_of(TORCH)
IN_WORKERS = [name for name, each in _OURS.items() if each.caught_by[0].startswith("workers.")]
"""What workers do is broken in their own processes, which load the mutant as a plugin."""
UNSUPPORTED = frozenset({"placing.spread_is_refused", "moving.while_it_trains"})
"""PyTorch's probe has no such model; ``has_a_sharded_model`` gives it one. No GPU here is real."""


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    with judging("torch", tmp_path_factory.mktemp("mutants"), unsupported=UNSUPPORTED) as made:
        yield made


@pytest.mark.parametrize("name", [name for name in _OURS if name not in IN_WORKERS])
def test_a_mutant_fails_each_check_that_it_names(name: str, judge: Judge) -> None:
    check_caught(name, judge)


@pytest.mark.parametrize("name", IN_WORKERS)
def test_a_mutant_of_workers_fails_each_check_that_it_names(name: str, tmp_path: Path) -> None:
    (check,) = _OURS[name].caught_by
    done = subprocess.run(
        [
            sys.executable, "-m", "unidev", "conform", _OURS[name].backend_name,
            "--profile", _OURS[name].profile, "--simulate", "0", "--only", check,
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


@pytest.mark.parametrize("name", _SOUND)
def test_a_sound_variant_passes_what_its_broken_twins_fail(name: str, judge: Judge) -> None:
    found = judge(name)
    for check in _SOUND[name].caught_by:
        assert found.results.get(check) == "pass", found.described(check)
