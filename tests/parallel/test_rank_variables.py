"""A process's place among those that torchrun, mpirun or srun has started, by their variables."""

from __future__ import annotations

import pytest

import unidev
from unidev.parallel.exchange.rank_variables import LAUNCHER, Place, advice, given_place

TORCHRUN = {"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "3",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "4", "PMIX_NAMESPACE": "prterun-host-4711@1",
}  # fmt: skip
MPICH = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
SRUN = {
    "SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "5", "SLURM_STEP_NUM_NODES": "3",
    "SLURM_NODEID": "1", "SLURM_LOCALID": "1", "SLURM_STEP_TASKS_PER_NODE": "2(x2),1",
    "SLURM_STEP_NODELIST": "gpu[03-05]", "SLURM_JOB_ID": "815", "SLURM_STEP_ID": "0",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*TORCHRUN, *OPEN_MPI, *MPICH, *SRUN, LAUNCHER, "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


def started(monkeypatch: pytest.MonkeyPatch, *sets: dict[str, str], **more: str) -> None:
    for name, value in {key: own for each in (*sets, more) for key, own in each.items()}.items():
        monkeypatch.setenv(name, value)


def place() -> Place:
    found = given_place()
    assert found is not None
    return found


def test_nothing_is_set() -> None:
    assert given_place() is None
    assert advice() is None


def test_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    started(monkeypatch, TORCHRUN, LOCAL_RANK="1", LOCAL_WORLD_SIZE="2")
    found = place()
    assert (found.rank, found.size, found.local_rank, found.local_size) == (1, 4, 1, 2)
    assert (found.host, found.port) == ("10.0.0.1", 29500)


def test_a_process_that_is_meant_to_be_alone_joins_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    started(monkeypatch, TORCHRUN, **{LAUNCHER: "none"})
    assert given_place() is None


def test_variables_of_torchruns_that_are_empty_are_not_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started(monkeypatch, dict.fromkeys(TORCHRUN, ""))
    assert given_place() is None


@pytest.mark.parametrize("size", ["two", "-1", "1.5"])
def test_a_variable_of_torchruns_that_is_not_a_number_is_named(
    monkeypatch: pytest.MonkeyPatch, size: str
) -> None:
    started(monkeypatch, TORCHRUN, WORLD_SIZE=size)
    with pytest.raises(unidev.InvalidDataError, match=f"WORLD_SIZE={size} must be an integer"):
        given_place()


def test_open_mpi(monkeypatch: pytest.MonkeyPatch) -> None:
    started(monkeypatch, OPEN_MPI)
    assert given_place() is None  # unless the user says so
    monkeypatch.setenv(LAUNCHER, "mpi")
    found = place()
    assert (found.rank, found.size, found.local_rank, found.local_size) == (3, 4, 3, 4)
    assert found.host == "127.0.0.1"
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    assert place().port == found.port  # by what all processes of the job have
    monkeypatch.setenv("PMIX_NAMESPACE", "prterun-host-4712@1")
    assert place().port != found.port
    monkeypatch.setenv("MASTER_PORT", "1234")
    assert place().port == 1234


def test_mpich_says_nothing_that_is_the_jobs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    started(monkeypatch, MPICH, **{LAUNCHER: "mpi"})
    with pytest.raises(unidev.InvalidDataError, match="set MASTER_PORT to one that is free"):
        given_place()
    monkeypatch.setenv("MASTER_PORT", "1234")
    found = place()
    assert (found.rank, found.size, found.local_rank, found.local_size) == (1, 2, 1, 2)


def test_mpi_on_several_hosts_needs_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    started(
        monkeypatch, OPEN_MPI, OMPI_COMM_WORLD_LOCAL_SIZE="2", OMPI_COMM_WORLD_LOCAL_RANK="1",
        **{LAUNCHER: "mpi"},
    )  # fmt: skip
    with pytest.raises(unidev.InvalidDataError, match="-x MASTER_ADDR=10"):
        given_place()
    monkeypatch.setenv("MASTER_ADDR", "10.0.0.1")
    assert place().host == "10.0.0.1"


@pytest.mark.parametrize(
    ("hosts", "first"),
    [
        ("gpu[03-05]", "gpu03"),
        ("gpu[7,9-10],login", "gpu7"),
        ("login,gpu[1-2]", "login"),
        ("rack[2-3]n[05-06]", "rack2n05"),
        ("node-1.cluster,node-2.cluster", "node-1.cluster"),
    ],
)
def test_slurm(monkeypatch: pytest.MonkeyPatch, hosts: str, first: str) -> None:
    started(monkeypatch, SRUN, SLURM_STEP_NODELIST=hosts, **{LAUNCHER: "slurm"})
    found = place()
    assert (found.rank, found.size, found.local_rank, found.local_size) == (3, 5, 1, 2)
    assert found.host == first
    assert 10_000 <= found.port < 32_768
    monkeypatch.setenv("MASTER_ADDR", "10.0.0.1")
    assert place().host == "10.0.0.1"


def test_slurm_on_one_host(monkeypatch: pytest.MonkeyPatch) -> None:
    started(
        monkeypatch, SRUN, SLURM_STEP_NUM_NODES="1", SLURM_NODEID="0", SLURM_LOCALID="3",
        SLURM_STEP_TASKS_PER_NODE="5", **{LAUNCHER: "slurm"},
    )  # fmt: skip
    found = place()
    assert (found.host, found.local_size) == ("127.0.0.1", 5)


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({LAUNCHER: "mpirun"}, "UNIDEV_LAUNCHER must be mpi, slurm or none, not 'mpirun'"),
        ({LAUNCHER: "mpi"}, "mpirun has not started this process"),
        ({LAUNCHER: "slurm"}, "srun has not started this process"),
        ({**SRUN, LAUNCHER: "slurm", "SLURM_PROCID": "5"}, "SLURM_PROCID=5 must be an integer"),
        ({**SRUN, LAUNCHER: "slurm", "SLURM_STEP_TASKS_PER_NODE": "2(x2)"}, "the tasks of 3 nodes"),
        ({**SRUN, LAUNCHER: "slurm", "SLURM_STEP_NODELIST": "[1-2"}, "must be a list of hosts"),
        ({**OPEN_MPI, LAUNCHER: "mpi", "OMPI_COMM_WORLD_RANK": "4"}, "from 0 to 3, as mpirun"),
    ],
)
def test_what_cannot_be_is_named(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], words: str
) -> None:
    started(monkeypatch, variables)
    with pytest.raises(unidev.InvalidDataError) as caught:
        given_place()
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("variables", "program", "word"),
    [
        ({**OPEN_MPI, "OMPI_COMM_WORLD_RANK": "0"}, "mpirun", "mpi"),
        ({**MPICH, "PMI_RANK": "0"}, "mpirun", "mpi"),
        ({**SRUN, "SLURM_PROCID": "0"}, "srun", "slurm"),
    ],
)
def test_a_group_of_one_among_several_says_what_to_set(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], program: str, word: str
) -> None:
    started(monkeypatch, variables)
    advised = advice()
    assert advised is not None
    assert advised.startswith(f"{program} has started ")
    assert f"UNIDEV_LAUNCHER={word} lets them join" in advised
    monkeypatch.setenv(LAUNCHER, "none")
    assert advice() is None
    assert given_place() is None


@pytest.mark.parametrize(
    "variables",
    [
        OPEN_MPI,  # another rank says it
        {**MPICH, "PMI_SIZE": "1", "PMI_RANK": "0"},
        {**SRUN, "SLURM_PROCID": "0", "SLURM_STEP_ID": "4294967291"},  # the batch script
        {"SLURM_PROCID": "0", "SLURM_JOB_ID": "815", "SLURM_NTASKS": "4"},
    ],
)
def test_what_is_not_certain_says_nothing(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    started(monkeypatch, variables)
    assert advice() is None
