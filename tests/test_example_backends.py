"""Third parties' backends: installed as their authors would, and judged by the suite."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from markdown_it import MarkdownIt

from toy_backend import framework as toy

if TYPE_CHECKING:
    from collections.abc import Mapping

EXAMPLES = Path(__file__).parent.parent / "examples"


class Example(NamedTuple):
    name: str
    most_lines: int
    """Of the backend and its probe; the framework is beside them."""

    @property
    def folder(self) -> Path:
        return EXAMPLES / f"{self.name}_backend"


MINIMAL = Example("minimal", 120)
TOY = Example("toy", 300)
WRITE = (
    "from unidev import cli; from unidev_conformance.cli import new_backend\n"
    "cli.cli.add_command(new_backend.command); cli.main()"
)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which both are installed, and this one is left as it was."""
    target = tmp_path_factory.mktemp("installed")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", target]
    subprocess.run([*install, MINIMAL.folder, TOY.folder], check=True, timeout=300)
    path = os.pathsep.join(filter(None, [str(target), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "UNIDEV_SIMULATE": ""}


def run(
    environment: Mapping[str, str], folder: Path, *command: str | Path
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        env=environment, cwd=folder, capture_output=True, text=True, timeout=300,
    )  # fmt: skip


@pytest.mark.parametrize("example", [MINIMAL, TOY], ids=lambda example: example.name)
def test_it_is_short(example: Example) -> None:
    paths = [path for path in example.folder.rglob("*.py") if path.name != "framework.py"]
    lines = [line for path in paths for line in path.read_text().splitlines()]
    assert 0 < len(lines) < example.most_lines


@pytest.mark.parametrize(("profile", "least"), [("tensor", 90), ("train", 60)])
def test_the_toy_conforms(
    environment: dict[str, str], profile: str, least: int, tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    words = ["conform", "toy", "--profile", profile, "--report", report]
    done = run(environment, tmp_path, "-m", "unidev", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    footer = json.loads(report.read_text())["footer"]
    assert footer["verdict"] == "conforms"
    assert footer["counts"]["pass"] >= least  # the others are declared unsupported


def test_the_minimal_one_is_the_template_filled_in(
    environment: dict[str, str], tmp_path: Path
) -> None:
    words = ("new-backend", "minimal", "--framework", "minimal_backend")
    done = run(environment, tmp_path, "-c", WRITE, *words, "--package", "minimal_backend")
    assert done.returncode == 0, done.stderr
    made = tmp_path / "minimal-backend"
    for path in (made / "pyproject.toml", *(made / "minimal_backend").glob("*.py")):
        filled = iter((MINIMAL.folder / path.relative_to(made)).read_text().splitlines())
        kept = [line for line in path.read_text().splitlines() if "fill in" not in line]
        assert [line for line in kept if line not in filled] == [], path
    shutil.copytree(
        MINIMAL.folder / "minimal_backend", made / "minimal_backend", dirs_exist_ok=True
    )
    path = os.pathsep.join((str(made), environment["PYTHONPATH"]))
    judged = run({**environment, "PYTHONPATH": path}, made, "-m", "pytest", "-s", "tests")
    assert judged.returncode == 0, judged.stdout + judged.stderr
    assert re.search(r"minimal: conforms .* (9\d|1\d\d) pass", judged.stdout)


def test_the_program_that_the_toys_page_has(environment: dict[str, str], tmp_path: Path) -> None:
    tokens = MarkdownIt().parse((TOY.folder / "README.md").read_text(encoding="utf-8"))
    (program,) = [each.content for each in tokens if each.info == "python"]
    done = run(environment, tmp_path, "-c", program)
    (printed,) = re.findall(r"print\(.*\)  # (.*)\n", program)
    assert (done.returncode, done.stdout) == (0, f"{printed}\n"), done.stderr


def test_the_toy_gives_no_gradient_of_an_array_that_outlived_its_function() -> None:
    kept: list[toy.Array] = []

    def keeps(x: toy.Array) -> toy.Array:
        kept.append(x)
        return x.sum()

    def uses(x: toy.Array) -> toy.Array:
        toy.value_and_grad(keeps)(x)
        return (x * kept[0]).sum()

    with pytest.raises(RuntimeError, match="outlived the function"):
        toy.value_and_grad(uses)(toy.full((2,), 3, "float32", "host"))


def test_it_is_chosen_by_name(environment: dict[str, str], tmp_path: Path) -> None:
    code = "import unidev; print([str(device) for device in unidev.list_devices()])"
    done = run({**environment, "UNIDEV_BACKEND": "minimal"}, tmp_path, "-c", code)
    assert (done.returncode, done.stdout) == (0, "['cpu:0', 'gpu:0']\n"), done.stderr


def test_it_has_no_simulator_and_says_so(environment: dict[str, str], tmp_path: Path) -> None:
    code = "import unidev; unidev.list_devices()"
    simulated = {**environment, "UNIDEV_BACKEND": "minimal", "UNIDEV_SIMULATE": "2"}
    done = run(simulated, tmp_path, "-c", code)
    assert done.returncode == 1
    assert "simulator is not supported: the backend has no simulator" in done.stderr
