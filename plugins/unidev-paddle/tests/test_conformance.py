"""The conformance suite, on the machine's own devices and on simulated ones."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import product

import pytest


@pytest.mark.parametrize(
    ("profile", "count"), [*product(["tensor", "train"], [0, 1, 4]), ("multi", 3)]
)
def test_the_backend_conforms(count, profile, tmp_path):
    suite = ["-m", "pytest", "--pyargs", "unidev.conformance", "-p", "no:cacheprovider"]
    options = ["--unidev-backend", "paddle", "--unidev-simulate", str(count)]
    options += ["--unidev-profile", profile]
    own = {name: value for name, value in os.environ.items() if name != "UNIDEV_SIMULATE"}
    done = subprocess.run(
        [sys.executable, *suite, *options], cwd=tmp_path, capture_output=True, text=True, env=own
    )
    assert done.returncode == 0, done.stdout + done.stderr
