"""The code in README and the documentation, on the frameworks that are here."""

from __future__ import annotations

import pytest
import warm_programs
from page_examples import PROGRAMS
from running_examples import FRAMEWORKS, environment
from warm_programs import run_program

_PAIRS = [
    (program, backend)
    for program in PROGRAMS
    for backend in FRAMEWORKS
    # README says that its programs run unchanged on every framework.
    if backend in program.backends
    or (program.page == "README.md" and program.backends == ["numpy"])
]


@pytest.mark.parametrize("count", [0, 2])
@pytest.mark.parametrize(
    ("program", "backend"),
    [
        pytest.param(program, backend, id=f"{program.page}:{program.line}-{backend}")
        for program, backend in _PAIRS
    ],
)
def test_a_program_on_a_page_runs(program, backend, count, tmp_path):
    file = tmp_path / "program.py"
    file.write_text(program.code)
    given = {"environment": environment(backend, count), "folder": tmp_path}
    done = run_program([str(file)], backend=backend, also=warm_programs.EXAMPLES, **given)
    assert done.returncode == 0, done.stderr
