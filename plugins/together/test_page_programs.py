"""Programs on pages of docs that use several frameworks in one process."""

import pytest
from page_examples import PROGRAMS
from several_frameworks import run

BOTH = [program for program in PROGRAMS if {"torch", "tensorflow"} == {*program.modules}]


def test_there_are_some():
    assert len(BOTH) > 1


@pytest.mark.parametrize("program", BOTH, ids=lambda program: f"{program.page}:{program.line}")
@pytest.mark.parametrize("count", ["0", "2"])
def test_a_program_on_a_page_runs_with_several_frameworks(program, count, tmp_path):
    run(["-c", program.code], simulate=count, folder=tmp_path)
