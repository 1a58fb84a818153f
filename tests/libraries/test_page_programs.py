"""Programs on pages of docs that need a library beside PyTorch: ``nox -s libraries``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from needed import need
from page_examples import PROGRAMS
from running_examples import environment
from warm_programs import run_fresh

if TYPE_CHECKING:
    from pathlib import Path

    from page_examples import Block

NEEDING = [program for program in PROGRAMS if "transformers" in program.modules]


def test_there_is_one() -> None:
    assert NEEDING


@pytest.mark.parametrize("program", NEEDING, ids=lambda program: f"{program.page}:{program.line}")
@pytest.mark.parametrize("count", [0, 2])
def test_a_program_on_a_page_runs_with_libraries(
    program: Block, count: int, tmp_path: Path
) -> None:
    need("libraries", *program.modules, install="nox -s libraries")
    given = {"environment": environment("torch", count), "folder": tmp_path}
    done = run_fresh(["-c", program.code], **given)
    assert done.returncode == 0, done.stderr
