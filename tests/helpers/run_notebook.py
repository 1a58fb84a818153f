"""Runs a MyST notebook in a kernel: ``python run_notebook.py NOTEBOOK.md RESULT.ipynb``.

Exits with 1 and the traceback if a cell fails; what ran until then is in the result, too.
"""

from __future__ import annotations

import sys
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

LIMIT_S = 300


def main(source: str, result: str) -> None:
    notebook = jupytext.read(source, fmt="md:myst")
    try:
        NotebookClient(notebook, timeout=LIMIT_S, kernel_name="python3").execute()
    except CellExecutionError as error:
        sys.exit(str(error))
    finally:
        nbformat.write(notebook, Path(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
