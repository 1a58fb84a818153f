"""Four simulated GPUs for all tests here; those about other processes start their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from warm_programs import SUITE, run_program

os.environ["UNIDEV_SIMULATE"] = "4"
os.environ["UNIDEV_BACKEND"] = "torch"

import unidev

unidev.active_backend()  # so that torch knows `sim` when test files name it

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Python = Callable[..., subprocess.CompletedProcess[str]]


def pytest_configure() -> None:
    """Ctrl-C reaches the tests, though a shell lets what it starts with `&` ignore it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


WARNINGS = ("-W", "error", "-W", "ignore:untested version")
"""Warnings are errors, but for unidev's own of a PyTorch that is newer than this plugin."""


def merged(environment: dict[str, str | None]) -> dict[str, str]:
    given = {**os.environ, "UNIDEV_SIMULATE": "0", **environment}
    return {name: value for name, value in given.items() if value is not None}


@pytest.fixture
def with_torch(tmp_path: Path) -> Python:
    """Runs a program in a process that has imported torch, and no more, with warnings as errors."""

    def run(program: str, **environment: str | None) -> subprocess.CompletedProcess[str]:
        words = [*WARNINGS, "-c", program]
        own = merged(environment)
        return run_program(words, backend="torch", also=SUITE, environment=own, folder=tmp_path)

    return run


@pytest.fixture
def python() -> Python:
    """Runs a program in a new interpreter, with warnings as errors."""

    def run(program: str, **environment: str | None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *WARNINGS, "-c", program],
            env=merged(environment),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return run
