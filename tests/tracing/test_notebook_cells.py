"""Traces in IPython: lines of cells by the cell's number, and ``%%trace_transfers``."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

import pytest
from notebooks import need_notebooks, run_cells

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

START = "import unidev\n%load_ext unidev\nx = unidev.ones(4, device='gpu')"


@pytest.fixture(autouse=True)
def _notebooks() -> None:
    need_notebooks()


def run(folder: Path, *cells: str, is_failure: bool = False) -> list[str]:
    """What each cell shows as plain text, or prints."""
    done = run_cells(folder, *cells, backend="numpy", count=2, is_failure=is_failure)
    return [cell.shown("text/plain") + cell.shown("stdout") for cell in done]


def test_a_trace_names_the_cell_and_the_line_in_it(tmp_path: Path) -> None:
    *_, shown = run(
        tmp_path,
        START,
        "def read(x):\n    y = 1\n    return unidev.copy_to(x, 'cpu')",
        "with unidev.trace_transfers() as trace:\n    read(x)\n\n    unidev.copy_to(x, 'gpu:1')\n"
        "print(sorted((line.line.file, line.line.number) for line in trace.by_line()))\ntrace",
    )
    assert "[('In [2]', 3), ('In [3]', 4)]" in shown
    assert "In [2], line 3 in read\n" in shown
    assert "In [3], line 4\n" in shown
    assert "    return unidev.copy_to(x, 'cpu')\n" in shown
    assert "ipykernel_" not in shown


def test_a_cell_that_runs_again_has_its_new_number_and_an_earlier_trace_keeps_its_own(
    tmp_path: Path,
) -> None:
    cell = "with unidev.trace_transfers() as trace:\n    unidev.copy_to(x, 'cpu')\ntrace"
    _, first, _, second, kept = run(tmp_path, START, cell, "kept = trace", cell, "print(kept)")
    assert "In [2], line 2\n" in first
    assert "In [4], line 2\n" in second
    assert "In [2], line 2\n" in kept


def test_the_magic_traces_its_cell(tmp_path: Path) -> None:
    done = run_cells(
        tmp_path, START, "%%trace_transfers\n\ny = unidev.copy_to(x, 'cpu')\ny.sum()",
        "print(y.sum(), 'trace' in dir())",
        "%%trace_transfers seen\nhere = !echo here\nfor _ in 'abc':\n    unidev.copy_to(x, 'cpu')",
        "print(seen.count, [str(each.line) for each in seen.by_line()], here)",
        backend="numpy", count=1,
    )  # fmt: skip
    trace, value = done[1].outputs
    assert trace["output_type"] == "display_data"
    assert "In [2], line 3</td>" in trace["data"]["text/html"]
    assert ">y = unidev.copy_to(x, &#x27;cpu&#x27;)</td>" in trace["data"]["text/html"]
    assert "In [2], line 3\n    y = unidev.copy_to(x, 'cpu')" in trace["data"]["text/plain"]
    assert value["output_type"] == "execute_result"
    assert "4.0" in value["data"]["text/plain"]
    assert done[2].shown("stdout") == "4.0 False\n"
    # Kept under a name; magics and commands work inside the cell.
    assert done[4].shown("stdout") == "3 ['In [4], line 4'] ['here']\n"


def test_a_cell_that_fails_shows_its_transfers_and_stops_the_notebook(tmp_path: Path) -> None:
    cell = "%%trace_transfers\ny = unidev.copy_to(x, 'cpu')\n1 / 0"
    done = run_cells(tmp_path, START, cell, "never", backend="numpy", count=1, is_failure=True)
    assert "1 transfer between devices" in done[1].shown("text/plain")
    (error,) = [each for each in done[1].outputs if each["output_type"] == "error"]
    assert error["ename"] == "ZeroDivisionError"
    traceback = re.sub(r"\x1b\[[\d;]*m", "", "\n".join(error["traceback"]))
    assert "-> 3 1 / 0" in " ".join(traceback.split())
    assert done[2].outputs == []


@pytest.mark.parametrize("given", ["a b", "2", "for", "--limit"])
def test_the_magic_takes_nothing_but_a_name(tmp_path: Path, given: str) -> None:
    cell = f"%%trace_transfers {given}\n1"
    done = run_cells(tmp_path, START, cell, backend="numpy", count=1, is_failure=True)
    said = done[1].shown("stderr")
    assert "%%trace_transfers takes nothing, or the name of a variable for the trace" in said
    assert f"not '{given}'." in said


def test_a_guard_names_the_cell(tmp_path: Path) -> None:
    cell = "with unidev.transfer_guard('forbid'):\n    unidev.to_numpy(x)"
    done = run_cells(tmp_path, START, cell, backend="numpy", count=1, is_failure=True)
    (error,) = done[1].outputs
    assert "In [2], line 2" in error["evalue"]


def test_ipython_in_a_terminal_names_its_inputs_too(run_python, tmp_path: Path) -> None:
    """It calls them otherwise than a kernel does, and has no HTML."""
    said = run_python(
        textwrap.dedent(
            """
            from IPython.core.interactiveshell import InteractiveShell

            shell = InteractiveShell.instance()
            shell.run_cell("import unidev", store_history=True)
            shell.run_cell("%load_ext unidev", store_history=True)
            shell.run_cell("x = unidev.ones(2, device='gpu')", store_history=True)
            shell.run_cell("%%trace_transfers t\\nunidev.copy_to(x, 'cpu');", store_history=True)
            shell.run_cell("print(t.by_line()[0].line)", store_history=True)
            """
        ),
        UNIDEV_BACKEND="numpy",
        UNIDEV_SIMULATE="1",
        IPYTHONDIR=str(tmp_path / "ipython"),
    )
    assert said.splitlines()[-1] == "In [4], line 2"


def test_without_ipython_nothing_of_it_is_imported(run_python) -> None:
    said = run_python(
        """
        import sys, unidev
        with unidev.trace_transfers() as trace:
            unidev.copy_to(unidev.ones(2, device="gpu"), "cpu")
        print(trace.by_line()[0].line, "IPython" in sys.modules, "html" in sys.modules)
        """,
        UNIDEV_BACKEND="numpy",
        UNIDEV_SIMULATE="1",
    )
    assert said == "<string>:4 False False"
