"""Four simulated GPUs for all tests here; those about other processes start their own."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

os.environ["UNIDEV_SIMULATE"] = "4"
os.environ["UNIDEV_BACKEND"] = "mxnet"

import unidev

unidev.active_backend()  # imports MXNet as the plugin does, before test files name it

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Python = Callable[..., subprocess.CompletedProcess[str]]


def pytest_configure(config: pytest.Config) -> None:
    # Where SciPy is installed, mx.nd.array and tostype ask it for a name that it deprecates.
    config.addinivalue_line(
        "filterwarnings", "ignore:Please import `csr_matrix`:DeprecationWarning"
    )


@pytest.fixture
def clean_library() -> Iterator[None]:
    """MXNet's library has its own functions again when the test is over."""
    from traced import clean

    with clean():
        yield


@pytest.fixture
def python() -> Python:
    """Runs a program in a new interpreter, with warnings as errors."""

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
