"""The tests on pages of docs pass, and the workflow of docs/testing.md is the one in docs/ci."""

from __future__ import annotations

import importlib
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from needed import need
from page_examples import BLOCKS

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/testing.md").read_text(encoding="utf-8")
WORKFLOW = (ROOT / "docs/ci/test-devices.yml").read_text(encoding="utf-8")
COMMAND = "python -m pytest --unidev-backend"


def test_the_tests_on_the_pages_pass_by_the_command_of_the_workflow(tmp_path: Path) -> None:
    blocks = [block for block in BLOCKS if block.note == "run by pytest"]
    assert len(blocks) == 4
    for number, block in enumerate(blocks):
        (tmp_path / f"test_{number}.py").write_text(block.code, encoding="utf-8")
    (command,) = [line.partition("run: ")[2] for line in WORKFLOW.splitlines() if COMMAND in line]
    words = shlex.split(command.replace("$BACKEND", "numpy"))[1:]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, *words, "-p", "unidev_pytest", "-p", "no:cacheprovider"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
    )  # fmt: skip
    assert "6 passed" in done.stdout, done.stdout + done.stderr
    assert "skipped" not in done.stdout


def test_the_workflow_in_the_guide_is_the_file() -> None:
    assert f"<!-- test-devices.yml -->\n```yaml\n{WORKFLOW}```\n" in GUIDE


def test_the_workflow_is_yaml_and_uses_what_it_names() -> None:
    need("tools", "yaml", install="pip install pyyaml")
    yaml = importlib.import_module("yaml")
    workflow = yaml.safe_load(WORKFLOW)
    (job,) = workflow["jobs"].values()
    backends = [each["backend"] for each in job["strategy"]["matrix"]["include"]]
    assert backends == ["numpy", "torch", "tensorflow", "paddle"]
    folders = [ROOT / f"plugins/unidev-{name}" for name in backends if name != "numpy"]
    assert all(folder.is_dir() for folder in folders)
    assert [step for step in job["steps"] if not {"uses", "run"} & step.keys()] == []
    used = {
        name for step in job["steps"] for name in re.findall(r"\$([A-Z]+)", step.get("run", ""))
    }
    given = {name for step in job["steps"] for name in step.get("env", {})}
    assert used == given == {"BACKEND"}
