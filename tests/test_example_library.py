"""``examples/a_library``: its tests pass as its page says, and see the bug that it names."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[1] / "examples/a_library"


def run_tests(folder: Path) -> subprocess.CompletedProcess[str]:
    """``pytest`` there, with NumPy."""
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    variables = {"PYTHONPATH": path, "UNIDEV_SIMULATE": "", "PYTHONDONTWRITEBYTECODE": "1"}
    options = ["-p", "unidev_pytest", "-p", "no:cacheprovider", "--unidev-backend", "numpy", "-rf"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=folder, capture_output=True, text=True, timeout=120,
        env=os.environ | variables,
    )  # fmt: skip


def test_its_tests_pass_and_find_the_bug_of_its_page(tmp_path: Path) -> None:
    folder = tmp_path / "a_library"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    done = run_tests(folder)
    assert "6 passed" in done.stdout, done.stdout + done.stderr
    page, code = folder / "README.md", folder / "a_library/__init__.py"
    source = code.read_text(encoding="utf-8")
    left_out = ", device=unidev.device_of(labels)"
    assert f"leave out `{left_out}`" in page.read_text(encoding="utf-8")
    code.write_text(source.replace(left_out, ""), encoding="utf-8")
    done = run_tests(folder)
    failed = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("FAILED")]
    said = page.read_text(encoding="utf-8").partition("```text\n")[2].partition("```")[0]
    assert [line.split()[1] for line in said.splitlines()] == failed
