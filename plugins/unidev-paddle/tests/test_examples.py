"""The examples print on Paddle what they print on every backend."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"


def run_example(name: str, count: int) -> bytes:
    own = {name: value for name, value in os.environ.items() if not name.startswith("UNIDEV_")}
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py"],
        env={**own, "UNIDEV_BACKEND": "paddle", "UNIDEV_SIMULATE": str(count)},
        capture_output=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.mark.parametrize("name", ["use_gpu", "place_model"])
def test_an_example_prints_what_every_backend_prints(name):
    assert run_example(name, 2) == (EXAMPLES / f"{name}.expected").read_bytes()


@pytest.mark.parametrize("count", [0, 1])
@pytest.mark.parametrize(
    ("name", "last"),
    [
        ("use_gpu", b"as_in_device(Z) is Z: True"),
        ("place_model", b"placed again, it has the same memory: True"),
    ],
)
def test_an_example_runs_with_fewer_gpus_than_it_asks_for(name, last, count):
    assert run_example(name, count).splitlines()[-1] == last
