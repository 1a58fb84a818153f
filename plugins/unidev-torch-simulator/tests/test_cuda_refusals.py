"""Simulated GPUs refuse in one sentence what needs CUDA itself, and no process ends of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import cuda_refusals
import pytest
from cuda_refusals import REFUSED, RIGHT
from once import once


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """By name; empty where the program ended well."""
    return once(tmp_path_factory, "cuda_refusals", _said)


def _said(folder: Path) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(Path(cuda_refusals.__file__)), *REFUSED, *RIGHT],
        env={
            **os.environ, "UNIDEV_SIMULATE": "4", "UNIDEV_SIMULATE_AS": "cuda",
            "UNIDEV_SIMULATE_LIKE": "H100", "TORCHINDUCTOR_COMPILE_THREADS": "1",
        },
        cwd=folder,
        stdout=subprocess.PIPE, text=True, timeout=600, check=True,
    )  # fmt: skip
    return dict(json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_in_words(said: dict[str, str], name: str) -> None:
    assert REFUSED[name][1] in said[name]


@pytest.mark.parametrize("name", RIGHT)
def test_what_stands_beside_it_runs(said: dict[str, str], name: str) -> None:
    assert said[name] == ""
