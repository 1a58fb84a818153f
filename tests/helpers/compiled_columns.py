"""The columns of docs/compiled.md that a plugin's framework has, against what it does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).parents[2] / "tools" / "compiled_table.py"


def check_columns(backend: str) -> None:
    """Run every call of the table, compiled and not, in a process of its own."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("UNIDEV_SIM")}
    done = subprocess.run(
        [sys.executable, TOOL, backend, "--check"],
        env=own, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-3000:]}"
