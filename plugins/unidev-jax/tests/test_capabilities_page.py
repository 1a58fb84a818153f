"""JAX's column on the page of capabilities is what the backend reports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_page_of_capabilities_has_what_the_backend_reports() -> None:
    page = "docs/capabilities.md"
    command = [sys.executable, "-m", "unidev", "info", "--capabilities", "--check", page]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
