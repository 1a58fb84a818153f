"""All tests of this plugin run beside three simulated GPUs; what needs others starts a process."""

from __future__ import annotations

import os
import signal
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from warm_programs import run_fresh

os.environ["UNIDEV_SIMULATE"] = "3"

import unidev

unidev.set_backend("paddle")

if TYPE_CHECKING:
    import subprocess

    from fresh_programs import Python


def pytest_configure() -> None:
    """Ctrl-C reaches the tests, though a shell lets what it starts with `&` ignore it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def run_python() -> Python:
    """Run a program in a process of its own; keywords are environment variables (None: unset)."""

    def run(program: str, **variables: str | None) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "UNIDEV_BACKEND": "paddle", **variables}
        return run_fresh(
            ("-W", "ignore", "-c", textwrap.dedent(program)),
            environment={name: x for name, x in environment.items() if x is not None},
            folder=Path.cwd(),
        )

    return run
