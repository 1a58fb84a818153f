"""The command line in a process of its own, in an empty folder, and in a pipe."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def unidev(tmp_path: Path):
    """Runs ``python -m unidev``."""

    def run(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "unidev", *map(str, words)], cwd=tmp_path, text=True,
            env={**os.environ, **environment}, capture_output=True, timeout=300,
        )  # fmt: skip

    return run


@pytest.fixture
def interrupted(tmp_path: Path):
    """The exit code of ``python -m unidev`` that gets a signal once ``begun`` is there."""

    def run(begun: Path, *words: str, number: int = signal.SIGINT, **environment: str) -> int:
        with subprocess.Popen(
            [sys.executable, "-m", "unidev", *words], cwd=tmp_path, stderr=subprocess.DEVNULL,
            env={**os.environ, **environment},
        ) as parent:  # fmt: skip
            while not os.path.lexists(begun):
                assert parent.poll() is None, "it ended before it began"
                time.sleep(0.05)
            parent.send_signal(number)
            return parent.wait(300)

    return run
