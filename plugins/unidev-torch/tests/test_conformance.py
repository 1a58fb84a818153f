"""The conformance suite, on the machine's own devices and on simulated ones."""

from __future__ import annotations

import subprocess
import sys
from itertools import product
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("profile", "count"), [*product(["tensor", "train"], [0, 1, 4]), ("multi", 3)]
)
def test_the_backend_conforms(count: int, profile: str, tmp_path: Path) -> None:
    suite = ["-m", "pytest", "--pyargs", "unidev.conformance", "-p", "no:cacheprovider"]
    options = ["--unidev-backend", "torch", "--unidev-simulate", str(count)]
    options += ["--unidev-profile", profile]
    done = subprocess.run(
        [sys.executable, *suite, *options], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
