"""This process and the user's own, most of them made up; no command line is ever shown."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from click.testing import CliRunner
from doctor_cases import GIB, torch
from fake_nvml import FakeNvml
from fake_proc import put_process, put_system

import unidev
from unidev.backends import driver_memory
from unidev.cli.doctor import command
from unidev.doctor import examination
from unidev.doctor.facts import Case
from unidev.system import machine
from unidev.system.host_memory import free_and_total
from unidev.system.processes import describe_process, largest_processes, this_process
from unidev.values import MemoryHolder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECRET = "hunter2"
LIBRARIES = "7f00 /a/libtorch_cuda.so\n7f01 /b/libtensorflow_cc.so.2\n7f02 [heap]"


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))
    put_system(tmp_path)
    return tmp_path


def test_a_fork_is_known_by_the_arguments_that_it_shares_with_its_parent(proc: Path) -> None:
    put_process(proc, os.getppid(), "python train.py", files=("/dev/null", "/dev/nvidia-uvm"))
    put_process(proc, os.getpid(), "python train.py", files=("/dev/nvidia0", "/dev/nvidia-uvm"))
    process = this_process()
    assert process.is_forked
    assert process.holds_gpu == process.parent_holds_gpu == ("/dev/nvidia-uvm",)


def test_a_process_that_was_started_anew_is_not_a_fork(proc: Path) -> None:
    put_process(proc, os.getppid(), "python train.py", files=("/dev/nvidia-uvm",))
    put_process(proc, os.getpid(), "python --multiprocessing-fork", files=("/dev/nvidiactl",))
    process = this_process()
    assert (process.is_forked, process.holds_gpu) == (False, ())


def test_a_system_without_proc_has_nothing_to_report(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path / "nothing"))
    assert this_process().is_forked is False
    assert describe_process(9) == (None, ())
    assert largest_processes(3) == []
    assert free_and_total() == (None, None)


def test_a_real_fork_is_known_and_a_real_spawn_is_none() -> None:
    program = """
import multiprocessing, sys
from unidev.system.processes import this_process
def report(queue): queue.put(this_process().is_forked)
if __name__ == "__main__":
    for method in ("fork", "spawn"):
        context = multiprocessing.get_context(method)
        queue = context.SimpleQueue()
        child = context.Process(target=report, args=(queue,))
        child.start()
        print(method, queue.get())
        child.join()
"""
    from tempfile import NamedTemporaryFile

    with NamedTemporaryFile("w", suffix=".py") as file:
        file.write(program)
        file.flush()
        done = subprocess.run(
            [sys.executable, file.name], capture_output=True, text=True, check=True, timeout=300
        )
    assert done.stdout.splitlines() == ["fork True", "spawn False"]


def test_the_libraries_of_a_process_are_read_off_its_memory_maps(proc: Path) -> None:
    put_process(proc, 9, "python train.py --epochs three", maps=LIBRARIES)
    assert describe_process(9) == ("python", ("libtensorflow_cc.so.2", "libtorch_cuda.so"))
    assert describe_process(10) == (None, ())


def test_the_host_has_free_memory_and_largest_processes(proc: Path) -> None:
    page = os.sysconf("SC_PAGE_SIZE")
    for pid, pages in ((1, 10), (22, 40), (333, 20), (4, 30)):
        put_process(proc, pid, f"program{pid} -x", pages=pages)
    (proc / "5").mkdir()  # it has ended meanwhile
    assert free_and_total() == (500 * 1024, 2000 * 1024)
    assert largest_processes(3) == [
        MemoryHolder(22, "program22", 40 * page),
        MemoryHolder(4, "program4", 30 * page),
        MemoryHolder(333, "program333", 20 * page),
    ]


def test_a_process_of_another_user_is_left_out_or_a_pid_alone(proc: Path) -> None:
    stranger = os.getuid() + 1
    put_process(proc, 22, "program22", pages=40, uid=stranger, maps=LIBRARIES)
    put_process(proc, 33, "program33", pages=30)
    assert describe_process(22) == (None, ())
    assert [each.pid for each in largest_processes(3)] == [33]


def test_a_title_that_a_process_has_given_itself_shows_no_arguments(proc: Path) -> None:
    put_process(proc, 9, f"trainer-of-nets-2 --token={SECRET}\x1b[31m", maps=LIBRARIES)
    (proc / "9" / "cmdline").write_text(f"trainer-of-nets-2 --token={SECRET}\0-x\0")
    name, _ = describe_process(9)
    assert psutil.Process(9).name().endswith(SECRET)
    assert name == largest_processes(1)[0].name == "trainer-of-nets-2"


# -- secrets in a command line ---------------------------------------------------------------------


class DriverWithSecrets(FakeNvml):
    """An NVIDIA GPU whose memory two processes hold, one of them another user's."""

    def __init__(self, *pids: int) -> None:
        super().__init__()
        self.pids = pids

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> Any:
        return SimpleNamespace(used=99 * GIB, free=GIB, total=100 * GIB)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[Any]:
        return [SimpleNamespace(pid=pid, usedGpuMemory=GIB) for pid in self.pids]

    def nvmlSystemGetProcessName(self, pid: int) -> str:
        return f"python --password {SECRET}"


@pytest.fixture
def holder() -> Iterator[psutil.Process]:
    """A process of this user that has a secret among its arguments."""
    program = "import sys; print(flush=True); sys.stdin.read()"
    child = subprocess.Popen(
        [sys.executable, "-c", program, "--password", SECRET],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert child.stdout is not None
    child.stdout.readline()  # it runs Python by now
    process = psutil.Process(child.pid)
    assert SECRET in process.cmdline()
    yield process
    child.communicate()


def test_the_error_for_memory_names_a_process_without_its_arguments(holder, monkeypatch) -> None:
    monkeypatch.setattr(psutil, "pids", lambda: [holder.pid, os.getpid()])
    with pytest.raises(unidev.OutOfDeviceMemoryError) as caught:
        unidev.zeros(2**50)
    error = caught.value
    assert {each.pid for each in error.holders} == {holder.pid, os.getpid()}
    assert f"process {holder.pid} ({holder.name()}): " in str(error)
    assert SECRET not in f"{error} {error.holders} {vars(error)}"


def test_the_drivers_holders_are_named_without_their_arguments(holder) -> None:
    driver = driver_memory.ask_nvml(DriverWithSecrets(holder.pid, 2**30), describe_process)
    memory = driver_memory.memory_of(driver.gpus[0])
    assert memory is not None
    assert memory.holders == (
        MemoryHolder(holder.pid, holder.name(), GIB),
        MemoryHolder(2**30, None, GIB),
    )


@pytest.mark.parametrize("words", [(), ("--json",)], ids=["text", "JSON"])
def test_the_doctor_names_a_process_without_its_arguments(holder, monkeypatch, words) -> None:
    monkeypatch.setattr(machine, "import_nvml", lambda: DriverWithSecrets(holder.pid, 2**30))
    given = Case(machine.read_machine({}), (torch(1),))
    monkeypatch.setattr(examination, "examine", lambda *_: given)
    done = CliRunner().invoke(command, words, standalone_mode=False)
    assert done.exception is None, done.exception
    assert f"process {holder.pid}: {holder.name()}: 1 GiB" in done.output
    assert f"process {2**30}: name unknown: 1 GiB" in done.output
    assert SECRET not in done.output
    if words:
        (gpu,) = json.loads(done.output)["machine"]["drivers"][0]["gpus"]
        assert [each["name"] for each in gpu["processes"]] == [holder.name(), None]
