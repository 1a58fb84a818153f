"""Fixtures of the plugins' tests: a program in an interpreter of its own, fresh or warm.

Warnings are errors there, and nothing is simulated unless the test's variables say so.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from warm_programs import SUITE, run_fresh, run_program

Python = Callable[..., subprocess.CompletedProcess[str]]
"""Takes a program, and environment variables by name; None removes one."""

_OPTIONS = ("-W", "error", "-W", "ignore:untested version", "-c")
"""Not unidev's own warning of a framework that is newer than its plugin."""


@pytest.fixture
def python() -> Python:
    """Runs a program in a new interpreter."""

    def run(program: str, **variables: str | None) -> subprocess.CompletedProcess[str]:
        return run_fresh(
            (*_OPTIONS, program), environment=_environment(variables), folder=Path.cwd()
        )

    return run


@pytest.fixture
def warm_python(tmp_path: Path) -> Python:
    """Runs a program in a process that has imported the framework, and no more."""

    def run(program: str, **variables: str | None) -> subprocess.CompletedProcess[str]:
        return run_program(
            (*_OPTIONS, program),
            backend=os.environ["UNIDEV_BACKEND"],
            also=SUITE,
            environment=_environment(variables),
            folder=tmp_path,
        )

    return run


def _environment(variables: dict[str, str | None]) -> dict[str, str]:
    given = {**os.environ, "UNIDEV_SIMULATE": "0", **variables}
    return {name: value for name, value in given.items() if value is not None}
