"""Memory of simulated GPUs in several processes, as CUDA's IPC gives it to programs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from once import once

PROGRAMS = Path(__file__).with_name("cuda_processes.py")
NAMES = re.findall(r"^@program\ndef (\w+)", PROGRAMS.read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """By name; empty where the program ended well."""
    return once(tmp_path_factory, "cuda_processes", _said)


def _said(folder: Path) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, str(PROGRAMS), *NAMES],
        env={**os.environ, "UNIDEV_SIMULATE": "2", "UNIDEV_SIMULATE_AS": "cuda"},
        cwd=folder,
        stdout=subprocess.PIPE, text=True, timeout=600, check=True,
    )  # fmt: skip
    return dict(json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.parametrize("name", NAMES)
def test_memory_is_shared_as_by_cuda(said: dict[str, str], name: str) -> None:
    assert said[name] == ""
