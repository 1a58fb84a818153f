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
USERS_TESTS = """\
import unidev
import unidev_pytest


def test_plain():
    print(unidev.__file__, unidev_pytest.__file__)
    assert [str(device) for device in unidev.try_all_gpus()] == ["gpu:0", "gpu:1"]
    x = unidev.ones(3, device="gpu:1")
    assert unidev.device_of(unidev.copy_to(x, "gpu:0")).is_simulated


def test_with_fixtures(unidev_backend, unidev_gpus):
    first, second = unidev_gpus(2)
    assert first.backend == second.backend == unidev_backend.name == "numpy"


def test_that_knows_nothing_of_unidev(tmp_path):
    assert not list(tmp_path.iterdir())
"""


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
    settings = ROOT.glob("plugins/unidev-*/pyproject.toml")
    plugins = [x.parent.name for x in settings if "[project.entry-points.unidev]" in x.read_text()]
    assert len(plugins) == 7
    for name in plugins:
        is_for_this_python = name != "unidev-jax" or sys.version_info >= (3, 11)
        assert (f"{name} {unidev.__version__}" in done.stdout) is is_for_this_python


def test_nothing_that_the_wheels_declare_is_missing(installed: Installed, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "--python", installed.python, "check"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_a_users_tests_run_on_simulated_gpus(installed: Installed, tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(USERS_TESTS, encoding="utf-8")
    done = installed.run("-m", "pytest", "-rs", cwd=tmp_path, expected=1)
    assert "1 failed, 1 passed, 1 skipped" in done.stdout
    assert "run pytest with --unidev-simulate 2" in done.stdout
    done = installed.run("-m", "pytest", "-vs", "--unidev-simulate", "2", cwd=tmp_path)
    assert "3 passed" in done.stdout
    assert "test_with_fixtures[numpy]" in done.stdout
    files = re.findall(r"\S+__init__\.py", done.stdout)
    assert len(files) == 2
    assert all(Path(file).is_relative_to(installed.site) for file in files)
