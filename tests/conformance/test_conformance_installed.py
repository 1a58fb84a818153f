"""The suite as a stranger has it: from a wheel, in a folder that is empty, or hostile."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MUTANTS = ROOT / "tests"
"""The folder that has the package ``mutants``."""
HOSTILE = """\
[pytest]
addopts = -k x --no-such-option
python_files = nothing
"""
LIMIT_S = 300


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the wheel installs, and nothing of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    # Without its own environment a build needs no network, where hatchling is there already.
    has_hatchling = importlib.util.find_spec("hatchling") is not None
    options = ["--no-deps", *(["--no-build-isolation"] if has_hatchling else []), "-w", folder]
    run([sys.executable, "-m", "pip", "wheel", *options, ROOT], folder)
    (wheel,) = folder.glob("*.whl")
    site = folder / "site"
    run([sys.executable, "-m", "pip", "install", "--no-deps", "--target", site, wheel], folder)
    return site


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder whose pytest configuration would deselect, or stop, everything."""
    (tmp_path / "pytest.ini").write_text(HOSTILE, encoding="utf-8")
    (tmp_path / "conftest.py").write_text("raise RuntimeError('not yours')\n", encoding="utf-8")
    (tmp_path / "test_x.py").write_text("def test_x():\n    assert False\n", encoding="utf-8")
    return tmp_path


def run(command: list[str | Path], cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **variables}, capture_output=True, text=True,
        timeout=LIMIT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done


def test_what_is_imported_is_what_the_wheel_installed(installed: Path, tmp_path: Path) -> None:
    program = "import unidev.conformance.checks as checks; print(checks.__file__)"
    done = run([sys.executable, "-c", program], tmp_path, PYTHONPATH=str(installed))
    assert Path(done.stdout.strip()).is_relative_to(installed)


def test_the_wheel_holds_no_mutant(installed: Path) -> None:
    names = [path.relative_to(installed).as_posix() for path in installed.rglob("*")]
    assert "unidev/conformance/checks/tensor/test_copy.py" in names
    assert not [name for name in names if "mutant" in name]
    texts = [path.read_text(encoding="utf-8") for path in installed.rglob("*.py")]
    assert not [text for text in texts if "mutants.mutant" in text or "@mutant(" in text]


def test_conform_runs_every_check_beside_a_hostile_ini(installed: Path, hostile: Path) -> None:
    report = hostile / "report.json"
    run(
        [sys.executable, "-m", "unidev", "conform", "numpy", "--simulate", "1", "--report", report],
        hostile,
        PYTHONPATH=str(installed),
        PYTEST_ADDOPTS="-k x",
    )
    results = json.loads(report.read_text(encoding="utf-8"))["results"]
    found = [each["result"] for each in results]
    assert set(found) == {"pass", "unsupported", "not-applicable"}
    assert found.count("pass") > len(found) / 2


def test_a_mutant_is_caught_beside_a_hostile_ini(installed: Path, hostile: Path) -> None:
    check = "copy.disjoint_on_the_same_device"
    report = hostile / "report.json"
    done = subprocess.run(
        [
            sys.executable, "-m", "unidev", "conform", "mutant_copy_is_a_view",
            "--simulate", "0", "--only", check, "--report", report,
        ],
        cwd=hostile, capture_output=True, text=True, timeout=LIMIT_S,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(installed), str(MUTANTS)]),
            "UNIDEV_PLUGINS": "mutants:copy_is_a_view",
            "UNIDEV_DISABLED_PLUGINS": "numpy",
        },
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    (result,) = json.loads(report.read_text(encoding="utf-8"))["results"]
    assert (result["check"], result["result"]) == (check, "fail")


def test_plain_pytest_finds_the_suite_in_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    run(
        [
            sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--pyargs",
            "unidev.conformance", "--unidev-backend", "numpy", "--unidev-simulate", "1",
            "--unidev-only", "copy.zero_d,devices.unique",
        ],
        tmp_path,
        PYTHONPATH=str(installed),
    )  # fmt: skip
