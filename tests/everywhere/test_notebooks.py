"""The notebooks in docs/notebooks, run in a kernel on NumPy, PyTorch and JAX."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from notebooks import need_notebooks, run_notebook
from running_examples import EXAMPLES, HERE

if TYPE_CHECKING:
    from pathlib import Path

    from notebooks import Cell

NOTEBOOKS = sorted((EXAMPLES.parent / "docs/notebooks").glob("*.md"))
BACKENDS = [name for name in ("numpy", "torch", "jax") if name in HERE]


@pytest.fixture(autouse=True)
def _notebooks() -> None:
    need_notebooks()


def run(name: str, folder: Path, backend: str, count: int) -> list[Cell]:
    notebook = EXAMPLES.parent / f"docs/notebooks/{name}.md"
    cells = run_notebook(notebook, folder, backend=backend, count=count)
    assert [each.shown("stderr") for each in cells] == [""] * len(cells)
    return cells


def printed(cells: list[Cell]) -> list[str]:
    return "".join(each.shown("stdout") for each in cells).splitlines()


def test_every_notebook_is_tested() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["use_gpu", "why_is_it_slow"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_use_gpu_on_two_gpus(backend: str, tmp_path: Path) -> None:
    cells = run("use_gpu", tmp_path, backend, 2)
    lines = printed(cells)
    assert lines[:9] == [
        f"the framework: {backend}",
        "devices: cpu:0 gpu:0 gpu:1",
        "try_gpu(): gpu:0",
        "try_gpu(1): gpu:1",
        "try_gpu(10): cpu:0",
        "try_all_gpus(): gpu:0 gpu:1",
        "x is on cpu:0",
        "X is on gpu:0",
        "Y is on gpu:1",
    ]
    assert lines[-3:] == [
        "Y + Z is on gpu:1",
        "copy_to(Z) shares memory with Z: False",
        "as_in_device(Z) is Z: True",
    ]
    assert any(line.startswith("check_same_device(X, Y): ") and "gpu:1" in line for line in lines)
    assert ">gpu:1</td>" in cells[1].shown("text/html")


@pytest.mark.parametrize("backend", BACKENDS)
def test_why_is_it_slow_names_the_cell(backend: str, tmp_path: Path) -> None:
    cells = run("why_is_it_slow", tmp_path, backend, 1)
    lines = printed(cells)
    looped = "total += float(loss_of(batch))"
    assert lines[0].startswith("the mean loss is ")
    assert lines[1:3] == ["100 transfers, 400 bytes", f"100 at In [3], line 4: {looped}"]
    assert "at In [5], line 3" in lines[3]
    assert lines[-2:] == [lines[0], "100 transfers before, 1 now"]
    html = cells[2].shown("text/html")
    assert "In [3], line 4</td>" in html
    assert f">{looped}</td>" in html
    assert "keep the sum on gpu:0 and read it once." in html
    assert "In [6], line 8</td>" in cells[5].shown("text/html")
    assert "gpu:0 is left out: it is simulated" in cells[7].shown("text/html")


@pytest.mark.parametrize("notebook", [path.stem for path in NOTEBOOKS])
def test_a_notebook_runs_where_there_is_no_gpu(notebook: str, tmp_path: Path) -> None:
    lines = printed(run(notebook, tmp_path, "numpy", 0))
    expected = {
        "use_gpu": "as_in_device(Z) is Z: True",
        "why_is_it_slow": "0 transfers before, 0 now",
    }
    assert lines[-1] == expected[notebook]


@pytest.mark.parametrize("backend", [name for name in BACKENDS if name == "torch"])
def test_a_notebook_of_others_has_gpus_that_answer_to_cuda(backend: str, tmp_path: Path) -> None:
    source = "import torch\nprint(torch.ones(2, device='cuda:1').device, torch.cuda.device_count())"
    code = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    notebook = {
        "cells": [{**code, "id": "one", "source": source}], "nbformat": 4, "nbformat_minor": 5,
        "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3"}},
    }  # fmt: skip
    (tmp_path / "theirs.ipynb").write_text(json.dumps(notebook))
    own = {name: value for name, value in os.environ.items() if not name.startswith("UNIDEV_SIM")}
    own |= {name: str(tmp_path / name) for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR")}
    command = ("jupyter", "execute", "--inplace", "theirs.ipynb")
    done = subprocess.run(
        [
            sys.executable, "-m", "unidev", "simulate", "--as", "cuda", "--gpus", "2", "--",
            sys.executable, "-m", *command,
        ],
        env={**own, "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime")},
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (cell,) = json.loads((tmp_path / "theirs.ipynb").read_text())["cells"]
    assert [each["text"] for each in cell["outputs"]] == [["cuda:1 2\n"]]
