"""The textbook's program, on MXNet."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"


def run_example(**environment):
    done = subprocess.run(
        [sys.executable, EXAMPLES / "use_gpu.py"],
        env={**os.environ, "UNIDEV_BACKEND": "mxnet", **environment},
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def test_use_gpu_prints_what_every_backend_prints():
    assert run_example(UNIDEV_SIMULATE="2") == (EXAMPLES / "use_gpu.expected").read_bytes()


@pytest.mark.parametrize("count", ["0", "1"])
def test_use_gpu_runs_with_fewer_gpus_than_it_asks_for(count):
    assert f"GPUs: {count}\n".encode() in run_example(UNIDEV_SIMULATE=count)


def test_place_model_prints_what_every_backend_prints():
    done = subprocess.run(
        [sys.executable, EXAMPLES / "place_model.py"],
        env={**os.environ, "UNIDEV_BACKEND": "mxnet", "UNIDEV_SIMULATE": "2"},
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout == (EXAMPLES / "place_model.expected").read_bytes()
