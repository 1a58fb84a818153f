"""What a stranger has: the wheels in an environment of their own, away from the checkout."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import unidev

if TYPE_CHECKING:
    from distributions.conftest import Installed

ROOT = Path(__file__).parents[2]


def test_the_readmes_first_example_runs(installed: Installed, tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    program = f"{blocks[0]}\nprint(unidev.__file__, unidev.num_gpus())"
    done = installed.run("-W", "error", "-c", program, cwd=tmp_path, UNIDEV_SIMULATE="2")
    file, gpus = done.stdout.split()[-2:]
    assert Path(file).is_relative_to(installed.site)
    assert gpus == "2"


def test_the_command_and_the_plugins_are_those_of_the_wheels(
    installed: Installed, tmp_path: Path
) -> None:
    command = installed.python.parent / "unidev"
    done = installed.run(command, "info", cwd=tmp_path)
    assert f"unidev {unidev.__version__}" in done.stdout
    for folder in ROOT.glob("plugins/unidev-*"):
        assert f"{folder.name} {unidev.__version__}" in done.stdout


def test_nothing_that_the_wheels_declare_is_missing(installed: Installed, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "--python", installed.python, "check"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
