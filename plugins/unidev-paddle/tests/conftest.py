"""All tests of this plugin run beside three simulated GPUs; what needs others starts a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable

import pytest

os.environ["UNIDEV_SIMULATE"] = "3"

import unidev

unidev.set_backend("paddle")


def pytest_configure() -> None:
    """Ctrl-C reaches the tests, though a shell lets what it starts with `&` ignore it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run_python() -> Run:
    """Run a program in a process of its own; keywords are environment variables (None: unset)."""

    def run(program: str, **variables: str | None) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "UNIDEV_BACKEND": "paddle", **variables}
        return subprocess.run(
            [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)],
            env={name: value for name, value in environment.items() if value is not None},
            capture_output=True,
            text=True,
            timeout=300,
        )

    return run
