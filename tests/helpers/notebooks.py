"""Notebooks of tests: run in a kernel, as a user does, and looked at."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from needed import need

if TYPE_CHECKING:
    from pathlib import Path

RUNNER = """
import sys
import jupytext, nbclient, nbformat

notebook = jupytext.read(sys.argv[1], fmt="md:myst")
try:
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
except nbclient.exceptions.CellExecutionError as error:
    sys.exit(str(error))
finally:
    nbformat.write(notebook, sys.argv[2])
"""
"""Its result has what ran, also if a cell fails."""
HEAD = """\
---
jupytext: {text_representation: {extension: .md, format_name: myst}}
kernelspec: {display_name: Python 3, language: python, name: python3}
---
"""


class Cell(NamedTuple):
    """A cell of code that has run."""

    source: str
    outputs: list[dict[str, Any]]

    def shown(self, kind: str) -> str:
        """What it showed as ``text/html`` or ``text/plain``; ``stdout``: what it printed."""
        if kind in ("stdout", "stderr"):
            return "".join(each["text"] for each in self.outputs if each.get("name") == kind)
        return "".join(each.get("data", {}).get(kind, "") for each in self.outputs)


def need_notebooks() -> None:
    """Skip the test without the extra ``notebooks``; an error where that is required."""
    need("notebooks", "ipykernel", "jupytext", "nbclient", install="pip install '.[notebooks]'")


def run_notebook(
    path: Path, folder: Path, *, backend: str, count: int = 0, is_failure: bool = False
) -> list[Cell]:
    """Run the notebook at ``path`` on ``count`` simulated GPUs; its cells of code."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("UNIDEV_")}
    own |= {name: str(folder / name) for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR")}
    own |= {"JUPYTER_RUNTIME_DIR": str(folder / "runtime"), "OMP_NUM_THREADS": "1"}
    own["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))  # as here
    own |= {"UNIDEV_BACKEND": backend, "UNIDEV_SIMULATE": str(count)}
    result = folder / "result.ipynb"
    done = subprocess.run(
        [sys.executable, "-c", RUNNER, path, result],
        cwd=folder,
        env=own,
        capture_output=True,
        text=True,
    )
    assert done.returncode == int(is_failure), done.stdout + done.stderr
    cells = json.loads(result.read_text(encoding="utf-8"))["cells"]
    return [
        Cell("".join(each["source"]), [_joined(output) for output in each["outputs"]])
        for each in cells
        if each["cell_type"] == "code"
    ]


def run_cells(folder: Path, *cells: str, **options: Any) -> list[Cell]:
    """Run these cells as a notebook."""
    path = folder / "made.md"
    path.write_text(HEAD + "".join(f"\n```{{code-cell}}\n{cell}\n```\n" for cell in cells))
    return run_notebook(path, folder, **options)


def _joined(output: dict[str, Any]) -> dict[str, Any]:
    """The output with its lists of lines joined, as the format allows both."""
    data = {kind: _text(value) for kind, value in output.get("data", {}).items()}
    return {**output, "text": _text(output.get("text", "")), "data": data}


def _text(value: Any) -> Any:
    return "".join(value) if isinstance(value, list) else value
