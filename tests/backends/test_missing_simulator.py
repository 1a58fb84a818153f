"""A simulator that is a distribution of its own, and not installed: each way to ask says how to."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Protocol

import pytest
from named_gpus import write_plugin

if TYPE_CHECKING:
    from pathlib import Path

REASON = "fakesimulator is not installed. Install it with: pip install fakesimulator"
SAID = f"no simulated GPUs for backend 'fake': {REASON}"
ELSEWHERE = (
    'simulator="fakesimulator.gpus:FakeSimulator", simulator_install="pip install fakesimulator"'
)
NAMED = {"UNIDEV_SIMULATE": "2", "UNIDEV_SIMULATE_AS": "cuda"}
ASK = """
import unidev
try:
    unidev.set_backend("fake")
except unidev.UnidevError as error:
    print(f"{type(error).__name__}: {error}")
"""


class Run(Protocol):
    def __call__(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]: ...


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs Python beside a plugin whose simulator is elsewhere."""
    write_plugin(tmp_path)
    plugin = tmp_path / "fakeplugin.py"
    plugin.write_text(plugin.read_text().replace("simulator=FakeSimulator", ELSEWHERE))
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])

    def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *words],
            env={**os.environ, "PYTHONPATH": path, "COLUMNS": "200", **variables},
            cwd=tmp_path, capture_output=True, text=True, timeout=300,
        )  # fmt: skip

    return run


def test_without_simulated_gpus_it_is_not_needed(run: Run) -> None:
    assert run("-c", f"{ASK}print(unidev.num_gpus())").stdout == "import\n0\n"


@pytest.mark.parametrize("way", ["by the variable", "by the function"])
def test_simulated_gpus_are_an_error_with_the_command(run: Run, way: str) -> None:
    done = (
        run("-c", ASK, UNIDEV_SIMULATE="2")
        if way == "by the variable"
        else run("-c", ASK.replace("try:", "unidev.simulate(2)\ntry:"))
    )
    assert (done.stdout, done.stderr) == (f"SimulationError: {SAID}\n", "")


def test_so_is_the_import_of_a_framework_whose_gpus_have_a_name(run: Run) -> None:
    done = run("-c", "import unidev; print('unidev'); import fakeframework", **NAMED)
    assert done.stdout == "unidev\n"
    assert done.stderr.endswith(f"SimulationError: {SAID}\n")


def test_so_is_the_command_simulate(run: Run) -> None:
    words = ("-m", "unidev", "simulate", "--gpus", "2")
    program = ("--", sys.executable, "-c", "import fakeframework")
    named = run(*words, "--as", "cuda", *program)
    assert (named.returncode, named.stdout) == (2, "")
    assert f"fake: {SAID}." in named.stderr
    unnamed = run(*words, *program)
    assert (unnamed.returncode, unnamed.stdout) == (1, "")
    assert unnamed.stderr.endswith(f"SimulationError: {SAID}\n")


def test_info_shows_it_and_lists_no_such_ability(run: Run) -> None:
    shown = run("-m", "unidev", "info", UNIDEV_SIMULATE="2")
    assert shown.returncode == 0
    assert SAID in shown.stdout
    table = run("-m", "unidev", "info", "--capabilities", "--markdown").stdout.splitlines()
    assert table[0] == "| | numpy | fake |"
    (row,) = (line for line in table if line.startswith("| simulated GPUs"))
    assert row.endswith("| yes | no (1) |")
    assert f"1. {REASON}" in table


def test_so_does_the_doctor(run: Run) -> None:
    for named in ({"UNIDEV_BACKEND": "fake"}, {}):
        shown = run("-m", "unidev", "doctor", UNIDEV_SIMULATE="2", **named).stdout
        assert "the simulator is missing: the backend cannot be used." in shown
        assert REASON in shown
        assert "are simulated" not in shown


def test_pytest_says_so(run: Run, tmp_path: Path) -> None:
    (tmp_path / "test_own.py").write_text("import unidev\ndef test(): unidev.gpu()\n")
    words = ("-m", "pytest", "-p", "no:cacheprovider", "-p", "unidev_pytest", "test_own.py")
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "UNIDEV_BACKEND": "fake"}
    unnamed = run(*words, "--unidev-simulate", "2", **alone)
    assert unnamed.returncode == 1
    assert f"SimulationError: {SAID}" in unnamed.stdout
    named = run(*words, "--unidev-simulate", "2", "--unidev-simulate-as", "cuda", **alone)
    assert named.returncode == 4
    expected = f"ERROR: --unidev-simulate-as: {SAID}\n"
    assert expected in named.stderr


@pytest.mark.parametrize(
    ("wrong", "missing"),
    [
        (ELSEWHERE.replace("fakesimulator.gpus", "fakeplugin.gpus"), "fakeplugin.gpus"),
        (ELSEWHERE.partition(",")[0], "fakesimulator"),
    ],
    ids=["a name that is wrong", "no command"],
)
def test_what_no_command_installs_is_the_plugins_fault(
    run: Run, tmp_path: Path, wrong: str, missing: str
) -> None:
    plugin = tmp_path / "fakeplugin.py"
    plugin.write_text(plugin.read_text().replace(ELSEWHERE, wrong))
    said = run("-c", ASK, UNIDEV_SIMULATE="2").stdout
    assert said.startswith("PluginError: `simulator` of backend 'fake' is ")
    assert said.endswith(f"but there is no module {missing}.\n")
