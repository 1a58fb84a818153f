"""The code in README and the documentation, on the frameworks that are here."""

from __future__ import annotations

import subprocess
import sys

import pytest
import warm_programs
from page_examples import PROGRAMS
from running_examples import FRAMEWORKS, HERE, environment
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


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(program, id=f"{program.page}:{program.line}-torch")
        for program in PROGRAMS
        if program.is_for_cuda and "torch" in HERE
    ],
)
def test_a_program_that_says_cuda_runs_on_simulated_gpus(program, tmp_path):
    file = tmp_path / "program.py"
    file.write_text(program.code)
    simulate = ("unidev", "simulate", "--as", "cuda", "--gpus", "2", "--")
    done = subprocess.run(
        [sys.executable, "-m", *simulate, sys.executable, str(file)],
        env={name: value for name, value in environment().items() if "UNIDEV" not in name},
        cwd=tmp_path, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Expected all tensors to be on the same device" in done.stdout
