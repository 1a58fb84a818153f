"""Names of notebook cells: IPython compiles a cell under the name of a file that does not exist."""

from __future__ import annotations

import re
import sys

CELL = "In ["
"""How the names of cells begin."""
_IN_NAME = re.compile(r"<ipython-input-(\d+)-")


def cell_name(file: str) -> str | None:
    """``In [4]`` if ``file`` is IPython's name for the cell that it ran as number 4; else None.

    The number is that of the latest run: a cell that runs again has the same file.
    """
    number = cell_number(file)
    return None if number is None else f"{CELL}{number}]"


def cell_number(file: str) -> int | None:
    """4 if ``file`` is IPython's name for the cell that it ran as number 4; else None."""
    if found := _IN_NAME.match(file):
        return int(found[1])
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    compiler = getattr(shell, "compile", None)
    # The public `format_code_name` gives the same as text, and older versions lack it.
    number = getattr(compiler, "_filename_map", {}).get(file)
    return number if isinstance(number, int) else None


def running_cell() -> int | None:
    """The number of the cell that runs now: the outermost on the stack; None: there is none."""
    number, frame = None, sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        found = cell_number(frame.f_code.co_filename)
        number = number if found is None else found
    return number
