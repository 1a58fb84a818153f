"""A third party's backend: installed as its author would, and judged by the conformance suite."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "examples" / "minimal_backend"


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """An environment in which the package is installed, and this one is left as it was."""
    target = tmp_path_factory.mktemp("installed")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", target]
    subprocess.run([*install, PACKAGE], check=True, timeout=300)
    path = os.pathsep.join(filter(None, [str(target), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "UNIDEV_SIMULATE": ""}


def run(environment, folder, *command):
    return subprocess.run(
        [sys.executable, *command],
        env=environment, cwd=folder, capture_output=True, text=True, timeout=300,
    )  # fmt: skip


def test_it_is_under_120_lines():
    lines = [line for path in PACKAGE.rglob("*.py") for line in path.read_text().splitlines()]
    assert 0 < len(lines) < 120


def test_it_conforms(environment, tmp_path):
    report = tmp_path / "report.json"
    done = run(environment, tmp_path, "-m", "unidev", "conform", "minimal", "--report", report)
    assert done.returncode == 0, done.stdout + done.stderr
    footer = json.loads(report.read_text())["footer"]
    assert footer["verdict"] == "conforms"
    assert footer["counts"]["pass"] > 50


def test_it_is_chosen_by_name(environment, tmp_path):
    code = "import unidev; print([str(device) for device in unidev.list_devices()])"
    done = run({**environment, "UNIDEV_BACKEND": "minimal"}, tmp_path, "-c", code)
    assert (done.returncode, done.stdout) == (0, "['cpu:0', 'gpu:0']\n"), done.stderr


def test_it_has_no_simulator_and_says_so(environment, tmp_path):
    code = "import unidev; unidev.list_devices()"
    simulated = {**environment, "UNIDEV_BACKEND": "minimal", "UNIDEV_SIMULATE": "2"}
    done = run(simulated, tmp_path, "-c", code)
    assert done.returncode == 1
    assert "simulator is not supported: the backend has no simulator" in done.stderr
