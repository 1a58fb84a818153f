"""Four simulated GPUs for all tests here; those about other processes start their own."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

os.environ["UNIDEV_SIMULATE"] = "4"
os.environ["UNIDEV_BACKEND"] = "jax"

import unidev

unidev.active_backend()  # before a test file's first array starts JAX's runtime

if TYPE_CHECKING:
    from collections.abc import Callable

    Python = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def python() -> Python:
    """Runs a program in a new interpreter, with warnings as errors; simulates nothing by itself."""

    def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-W", "error", "-c", program],
            env={**os.environ, "UNIDEV_SIMULATE": "0", **environment},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return run
