"""The types that a user's checker sees."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from needed import need

ROOT = Path(__file__).parents[2]
LINES = Path(__file__).with_name("lines.py")


def test_a_type_checker_accepts_and_refuses_what_it_should(tmp_path: Path) -> None:
    need("tools", "mypy", install="pip install mypy")
    done = subprocess.run(
        [
            sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--no-pretty",
            "--config-file", os.devnull, "--cache-dir", tmp_path, LINES,
        ],
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    refused = re.findall(rf"{LINES.name}:(\d+): error: .*\[([\w-]+)\]$", done.stdout, re.MULTILINE)
    marked = [
        (number, line.partition("# refused: ")[2])
        for number, line in enumerate(LINES.read_text(encoding="utf-8").splitlines(), 1)
        if "# refused: " in line
    ]
    assert sorted({(int(number), code) for number, code in refused}) == marked, (
        done.stdout + done.stderr
    )
