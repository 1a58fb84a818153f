"""``unidev conform --launcher``: launchers that keep the promises, and some with a fault."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from faulty_launchers import FAULTY

pytestmark = pytest.mark.slow

HELPERS = str(Path(__file__).parents[1] / "helpers")


def conform(*words: str, plugin: str = "subprocess_launcher") -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([HELPERS, *filter(None, sys.path)])
    return subprocess.run(
        [sys.executable, "-m", "unidev", "conform", "--launcher", *words],
        env={**os.environ, "PYTHONPATH": path, "UNIDEV_PLUGINS": plugin},
        capture_output=True, text=True,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["processes", "agent"])
def test_a_sound_launcher_conforms(name: str) -> None:
    done = conform(name)
    assert done.returncode == 0, done.stdout + done.stderr
    *checks, verdict = done.stdout.splitlines()
    assert len(checks) == 13
    assert all(line.startswith("pass  ") for line in checks), done.stdout
    assert verdict == f"the launcher {name} conforms (workers of numpy)"


@pytest.mark.parametrize("cls", FAULTY, ids=lambda cls: cls.__name__)
def test_a_fault_is_found(cls: type) -> None:
    check = FAULTY[cls]
    plugin = f"faulty_launchers:plugin_{cls.__name__}"
    # Some faults show as a run without end.
    done = conform("faulty", "--only", check, "--timeout", "15", plugin=plugin)
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.startswith(f"FAIL  {check}"), done.stdout
    assert "faulty does not conform: 1 check failed, in the selected checks" in done.stdout


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("slurm",), 4, "there is no launcher 'slurm'; there are: agent, processes."),
        (("processes", "--address", "auto"), 4, "the launcher 'processes' takes no address"),
        (("processes", "--backend", "nothing"), 4, "there is no backend 'nothing'"),
        (("processes", "numpy"), 2, "--launcher judges a launcher: leave out NAME"),
        (("processes", "--simulate", "2"), 2, "leave out --simulate"),
        (("processes", "--only", "copy"), 2, "no check of launchers is 'copy': ranks, "),
        (("processes", "--only", ","), 2, "--only names no check"),
    ],
)
def test_what_cannot_be_judged_is_named(words: tuple[str, ...], code: int, said: str) -> None:
    done = conform(*words)
    assert done.returncode == code, done.stdout + done.stderr
    assert said in " ".join(done.stderr.split())


@pytest.mark.parametrize("words", [("--address", "auto"), ("--backend", "numpy")])
def test_options_of_launchers_are_refused_without_one(words: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "unidev", "conform", "numpy", *words], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "--backend and --address are for --launcher" in done.stderr


def test_the_checks_are_listed_with_their_promises() -> None:
    done = conform("processes", "--list")
    assert done.returncode == 0
    assert "interrupted" in done.stdout
    assert "output       What workers print is shown while they run" in done.stdout
