"""A process's place among those that torchrun, mpirun or srun has started, by their variables."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unidev.errors import InvalidDataError
from unidev.system.host.ports import LOOPBACK, port_for
from unidev.system.settings import LAUNCHER

if TYPE_CHECKING:
    from collections.abc import Sequence

_TORCHRUN = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_MPI = (
    (
        "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
)  # fmt: skip
"""The variables of Open MPI, and those of MPICH and Intel MPI."""
_SPECIAL_STEPS = 0xFFFF_FFF0
"""From here on a Slurm step is not srun's, but the batch script, or outside of any step."""


@dataclass(frozen=True)
class Place:
    """One of several processes that another program has started."""

    rank: int
    size: int
    local_rank: int
    """Its number among those of its host."""
    local_size: int
    host: str
    """The address at which rank 0 listens."""
    port: int
    program: str
    way_out: str
    """What the user does if the process was to run alone."""

    def variables(self) -> dict[str, str]:
        """The place by torchrun's variables."""
        return {
            "RANK": str(self.rank), "WORLD_SIZE": str(self.size),
            "LOCAL_RANK": str(self.local_rank), "LOCAL_WORLD_SIZE": str(self.local_size),
            "MASTER_ADDR": self.host, "MASTER_PORT": str(self.port),
        }  # fmt: skip


def given_place() -> Place | None:
    """This process's place; None if it is alone.

    Raises:
        InvalidDataError: a variable is missing, or has a value that the program would not give it.
    """
    chosen = LAUNCHER.value()
    if chosen == "mpi":
        place = _of_mpirun()
    elif chosen == "slurm":
        place = _of_srun()
    elif not chosen and all(map(os.environ.get, _TORCHRUN)) and _number("WORLD_SIZE", 0) > 1:
        place = _of_torchrun()
    else:
        return None
    return place if place.size > 1 else None


def advice() -> str | None:
    """What to set so that processes which are certainly one program's train together, or None.

    For rank 0 alone, and not if the user has said what is wanted.
    """
    if os.environ.get(LAUNCHER, "").strip():
        return None
    for rank, size, *_ in _MPI:
        if _count(size) > 1 and os.environ.get(rank) == "0":
            return _advice("mpirun", size, "mpi")
    size = "SLURM_STEP_NUM_TASKS"
    step = _count("SLURM_STEP_ID", otherwise=_SPECIAL_STEPS)
    if step < _SPECIAL_STEPS and _count(size) > 1 and os.environ.get("SLURM_PROCID") == "0":
        return _advice("srun", size, "slurm")
    return None


def _advice(program: str, size: str, name: str) -> str:
    return (
        f"{program} has started {os.environ[size]} processes ({size}), and unidev.group() is a "
        f"group of one in each: they do the same work. {LAUNCHER}={name} lets them join; "
        f"{LAUNCHER}=none says that they are to work alone."
    )


def _of_torchrun() -> Place:
    size = _number("WORLD_SIZE", 1)
    return Place(
        rank=_number("RANK", 0, size - 1),
        size=size,
        local_rank=_number("LOCAL_RANK", 0, otherwise=0),
        local_size=_number("LOCAL_WORLD_SIZE", 1, otherwise=1),
        host=os.environ["MASTER_ADDR"],
        port=_number("MASTER_PORT", 0, 65535),
        program="torchrun",
        way_out=f"without torchrun, unset {', '.join(_TORCHRUN)}",
    )


def _of_mpirun() -> Place:
    names = next((each for each in _MPI if each[1] in os.environ), None)
    if names is None:
        raise InvalidDataError(
            f"{LAUNCHER}=mpi, but mpirun has not started this process: neither {_MPI[0][1]} nor "
            f"{_MPI[1][1]} is set. Run `mpirun -n 2 python train.py`, or unset {LAUNCHER}."
        )
    size = _number(names[1], 1)
    local_size = _number(names[3], 1)
    host = os.environ.get("MASTER_ADDR") or (LOOPBACK if local_size == size else None)
    if host is None:
        raise InvalidDataError(
            "mpirun has started processes on several hosts, and does not say where rank 0 is: "
            "pass its address and a free port there, such as `mpirun -x MASTER_ADDR=10.0.0.1 "
            "-x MASTER_PORT=29500 …` (MPICH: `-genv MASTER_ADDR 10.0.0.1`)."
        )
    return Place(
        rank=_number(names[0], 0, size - 1),
        size=size,
        local_rank=_number(names[2], 0, local_size - 1),
        local_size=local_size,
        host=host,
        port=_port("PMIX_NAMESPACE"),
        program="mpirun",
        way_out=f"to run alone, unset {LAUNCHER}",
    )


def _of_srun() -> Place:
    if "SLURM_PROCID" not in os.environ:
        raise InvalidDataError(
            f"{LAUNCHER}=slurm, but srun has not started this process: SLURM_PROCID is not set. "
            f"Run `srun python train.py`, or unset {LAUNCHER}."
        )
    size = _number("SLURM_STEP_NUM_TASKS", 1)
    hosts = _number("SLURM_STEP_NUM_NODES", 1)
    tasks = _tasks(os.environ.get("SLURM_STEP_TASKS_PER_NODE", ""), hosts)
    local_size = tasks[_number("SLURM_NODEID", 0, hosts - 1)]
    first = LOOPBACK if hosts == 1 else _first_host(os.environ.get("SLURM_STEP_NODELIST", ""))
    return Place(
        rank=_number("SLURM_PROCID", 0, size - 1),
        size=size,
        local_rank=_number("SLURM_LOCALID", 0, local_size - 1),
        local_size=local_size,
        host=os.environ.get("MASTER_ADDR") or first,
        port=_port("SLURM_JOB_ID", "SLURM_STEP_ID"),
        program="srun",
        way_out=f"to run alone, unset {LAUNCHER}",
    )


def _port(*names: str) -> int:
    """The user's, or one that the variables ``names``, the job's own, give on all its hosts."""
    if os.environ.get("MASTER_PORT"):
        return _number("MASTER_PORT", 0, 65535)
    values = [os.environ.get(name, "") for name in names]
    if not all(values):
        raise InvalidDataError(
            f"the processes do not know a common port ({' and '.join(names)} identify the job, and "
            "are not set): set MASTER_PORT to one that is free on rank 0's host."
        )
    return port_for(" ".join(values))


def _tasks(text: str, hosts: int) -> Sequence[int]:
    """The tasks on each host, of ``2(x3),1``.

    https://slurm.schedmd.com/srun.html#OPT_SLURM_STEP_TASKS_PER_NODE
    """
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part.strip())
        if match is None:
            break
        found += [int(match[1])] * int(match[2] or 1)
    if len(found) != hosts:
        raise InvalidDataError(
            f"SLURM_STEP_TASKS_PER_NODE={text} must be the tasks of {hosts} nodes, as srun sets it."
        )
    return found


def _first_host(text: str) -> str:
    """The first host of a list such as ``gpu[03-05,9],login``.

    https://slurm.schedmd.com/scontrol.html: of several brackets, each gives its first number.
    """
    first = re.match(r"(?:[^,\[\]]|\[[^\]]*\])+", text)
    host = re.sub(r"\[(\d+)[^\]]*\]", r"\1", first[0]) if first else ""
    if not re.fullmatch(r"[\w.-]+", host):
        raise InvalidDataError(
            f"SLURM_STEP_NODELIST={text} must be a list of hosts, as srun sets it; or set "
            "MASTER_ADDR to the address of rank 0's host."
        )
    return host


def _count(name: str, otherwise: int = 0) -> int:
    text = os.environ.get(name, "")
    return int(text) if text.isascii() and text.isdigit() else otherwise


def _number(name: str, least: int, most: int | None = None, *, otherwise: int = -1) -> int:
    text = os.environ.get(name, "")
    number = int(text) if text.isascii() and text.isdigit() else -1 if text else otherwise
    if number < least or (most is not None and number > most):
        span = f"of at least {least}" if most is None else f"from {least} to {most}"
        chosen = os.environ.get(LAUNCHER, "").strip()
        program = {"mpi": "mpirun", "slurm": "srun"}.get(chosen, "torchrun")
        raise InvalidDataError(
            f"{name}={text} must be an integer {span}, as {program} sets it. To run one process "
            f"alone, unset {LAUNCHER if chosen else ', '.join(_TORCHRUN)}."
        )
    return number
