"""The example of several processes, on every framework that is installed here."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys

import pytest
from running_examples import EXAMPLES, HERE, ONE, environment, run_example

FIRST_LOSS = pytest.approx(0.80, abs=0.02)
"""As of ``multi_gpu.py``."""

NO_AUTOGRAD = "many_machines.py: autograd is not supported: NumPy has no autograd"


@pytest.mark.parametrize("backend", HERE)
def test_several_processes_learn_what_several_devices_do(backend, tmp_path):
    options = ("--workers", 2, "--epochs", 1, "--json", "found.json")
    done = run_example(tmp_path, "many_machines", *options, backend=backend)
    if backend == "numpy":
        assert (done.returncode, done.stderr) == (1, f"{NO_AUTOGRAD}\n")
        return
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["workers"] == 2
    assert found["losses"] == [FIRST_LOSS]
    assert found["accuracies"][0] > 0.7


@pytest.mark.parametrize("backend", HERE)
def test_the_same_program_runs_under_launch(backend, tmp_path):
    words = ["launch", "--workers", "2", str(EXAMPLES / "many_machines.py"), "--epochs", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "unidev", *words],
        cwd=tmp_path,
        env={**os.environ, "UNIDEV_BACKEND": backend},
        capture_output=True,
        text=True,
    )
    if backend == "numpy":
        (line,) = done.stderr.splitlines()
        assert re.fullmatch(f"unidev: worker . on .* called sys.exit\\('{NO_AUTOGRAD}'\\)\\.", line)
        assert done.returncode == 1
        return
    assert done.returncode == 0, done.stderr
    (line,) = [each for each in done.stdout.splitlines() if "epoch" in each]
    assert line.startswith("[0] 2 workers, epoch  1: loss 0.")


@pytest.mark.parametrize("backend", ONE)
@pytest.mark.parametrize("path", ["nowhere/file", "."])
@pytest.mark.parametrize("options", [[], ["--workers", "2"]])
def test_a_file_that_cannot_be_written_is_refused_before_it_trains(
    options, path, backend, tmp_path
):
    done = run_example(tmp_path, "many_machines", *options, "--json", path, backend=backend)
    said = f"many_machines.py: --json: not a file in a folder that is there: '{path}'\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", said)


@pytest.mark.parametrize("backend", [name for name in HERE if name != "numpy"])
@pytest.mark.parametrize("options", [[], ["--workers", "2"]])
def test_ctrl_c_ends_it_without_a_traceback(backend, options, tmp_path):
    with subprocess.Popen(
        [sys.executable, EXAMPLES / "many_machines.py", "--epochs", "10000", *options],
        env=environment(backend), cwd=tmp_path, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert "epoch  1" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in said  # TensorFlow logs lines of its own
    assert "Interrupt" not in said
