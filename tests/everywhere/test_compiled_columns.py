"""docs/compiled.md has what unidev's functions do in functions that the user compiles."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from running_examples import FRAMEWORKS, environment

TOOL = Path(__file__).parents[2] / "tools" / "compiled_table.py"


@pytest.mark.parametrize("backend", FRAMEWORKS)
def test_the_page_has_what_they_do(backend: str) -> None:
    """Every call of the table, compiled and not, in a process of its own."""
    if backend == "torch" and version("numpy") < "2":  # as beside MXNet
        pytest.skip("torch.compile does not read what NumPy 1 exports: nox -t full -s torch")
    done = subprocess.run(
        [sys.executable, TOOL, backend, "--check"],
        env=environment(backend), capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-3000:]}"
