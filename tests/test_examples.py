"""The examples print the same, byte for byte, on every backend that is installed here.

With the core alone that is NumPy. In a framework's environment, ``pytest tests/test_examples.py``
tests that framework too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from unidev.plugins import backend_specs

EXAMPLES = Path(__file__).parent.parent / "examples"
HERE = [name for name, spec in backend_specs().items() if find_spec(spec.framework) is not None]


def run_example(name: str, backend: str, count: int) -> subprocess.CompletedProcess[bytes]:
    """Run ``examples/NAME.py`` on ``count`` simulated GPUs, as a user does."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("UNIDEV_")}
    return subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py"],
        env={**own, "UNIDEV_BACKEND": backend, "UNIDEV_SIMULATE": str(count)},
        capture_output=True,
    )


def test_numpy_is_among_the_backends_that_are_tested():
    assert "numpy" in HERE


@pytest.mark.parametrize("backend", HERE)
def test_use_gpu_prints_what_is_expected(backend):
    done = run_example("use_gpu", backend, 2)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout == (EXAMPLES / "use_gpu.expected").read_bytes()


def test_use_gpu_says_nothing_but_that():
    assert run_example("use_gpu", "numpy", 2).stderr == b""


@pytest.mark.parametrize("backend", HERE)
def test_use_gpu_falls_back_to_the_cpu_where_there_is_no_gpu(backend):
    done = run_example("use_gpu", backend, 0)
    lines = done.stdout.decode().splitlines()
    assert done.returncode == 0, done.stderr.decode()
    if lines[0] == "GPUs: 0":  # on a machine with GPUs, those are used
        assert lines[1:4] == ["try_gpu(): cpu:0", "try_gpu(10): cpu:0", "try_all_gpus(): cpu:0"]
        assert "X and Y are on the same device" in lines
    assert lines[-1] == "as_in_device(Z) is Z: True"


def test_use_gpu_runs_with_one_gpu():
    lines = run_example("use_gpu", "numpy", 1).stdout.decode().splitlines()
    assert lines[:3] == ["GPUs: 1", "try_gpu(): gpu:0", "try_gpu(10): cpu:0"]
    assert any(line.startswith("X + Y is refused: ") and "Y: cpu:0" in line for line in lines)
    assert lines[-2:] == ["copy_to(Z) shares memory with Z: False", "as_in_device(Z) is Z: True"]
