"""The examples print on Paddle what they print on every backend."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"


def run_use_gpu(count: int) -> bytes:
    own = {name: value for name, value in os.environ.items() if not name.startswith("UNIDEV_")}
    done = subprocess.run(
        [sys.executable, EXAMPLES / "use_gpu.py"],
        env={**own, "UNIDEV_BACKEND": "paddle", "UNIDEV_SIMULATE": str(count)},
        capture_output=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def test_use_gpu_prints_what_every_backend_prints():
    assert run_use_gpu(2) == (EXAMPLES / "use_gpu.expected").read_bytes()


@pytest.mark.parametrize("count", [0, 1])
def test_use_gpu_runs_with_fewer_gpus_than_it_asks_for(count):
    assert run_use_gpu(count).splitlines()[-1] == b"as_in_device(Z) is Z: True"
