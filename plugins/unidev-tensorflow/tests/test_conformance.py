"""The conformance suite, on the machine's own devices and on simulated ones."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("profile", "count"),
    [("tensor", 0), ("tensor", 1), ("tensor", 4), ("train", 0), ("train", 3), ("multi", 3)],
)
def test_the_backend_conforms(profile: str, count: int, tmp_path: Path) -> None:
    suite = ["-m", "pytest", "--pyargs", "unidev.conformance", "-p", "no:cacheprovider"]
    options = ["--unidev-backend", "tensorflow", "--unidev-simulate", str(count)]
    options += ["--unidev-profile", profile]
    done = subprocess.run(
        [sys.executable, *suite, *options], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
