"""PyTorch in several processes: Adam after a failure, and torchrun."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import run_samples
import run_with_adam
import torch

import unidev
from unidev.system.host.host import WorkerHost

if TYPE_CHECKING:
    from pathlib import Path

    from unidev.system.host.frames import Frame

TORCHRUN = """
import atexit
from pathlib import Path

import torch.distributed

import unidev

def threads():
    names = [each.read_text() for each in Path("/proc/self/task").glob("*/comm")]
    return [name for name in names if "gloo" in name]

def say():
    print(f"at the end: {torch.distributed.is_initialized()} {threads()}")

atexit.register(say)

group = unidev.group()
tree = {"w": unidev.full(3, group.rank + 1.0), "half": unidev.full(2, 300.0, dtype="float16")}
found = group.all_reduce(tree, "mean")
same = group.broadcast(unidev.arange(2) + group.rank, 1)
is_shared = "memfd:unidev" in Path("/proc/self/maps").read_text()
values = [x.tolist() for x in (found["w"], found["half"], same)]
print(f"{values} {is_shared}")  # in one piece: two processes write to one pipe
try:
    group.all_reduce(unidev.ones(3 + group.rank))
except unidev.InvalidDataError as error:
    print(error)
group.barrier()
"""


DIFFERENCES = """
import json
import os
from pathlib import Path

import run_samples

import unidev

Path(f"heard-by-{os.environ['RANK']}").write_text(json.dumps(run_samples.all_differences()))
"""

RAISING = """
import json
import os
from pathlib import Path

import overlapping

import unidev


def work():
    if step == 2 and os.environ["RANK"] == "1":
        raise ValueError("it is enough")


net, heard = overlapping.Chain(), []
parallel = unidev.DataParallel(net)
for step in range(5):
    loss_of = overlapping.through(net, work)
    try:
        unidev.value_and_grad(loss_of)(parallel, *overlapping.rows())
    except (unidev.FrameworkError, unidev.CollectiveError) as error:
        heard.append(f"{step}: {error}")
Path(f"heard-by-{os.environ['RANK']}").write_text(json.dumps(heard))
"""

KILLED = """
import os
import signal
import subprocess

import unidev

signal.signal(signal.SIGTERM, signal.SIG_IGN)  # from torchrun, which notices the end as well
group = unidev.group()
group.all_reduce(unidev.ones(1))
if group.rank == 1:
    os.kill(os.getpid(), 9)
try:
    group.all_reduce(unidev.ones(1))
except unidev.CollectiveError as error:
    print(error)
files = f"/proc/{os.getpid()}/fd"
stranger = 65534 if os.getuid() == 0 else None
print("a stranger sees", subprocess.run(["ls", files], user=stranger, capture_output=True).stdout)
"""
WITHOUT_MEMORY = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (10**6, 10**6))"
"""First in a program: its processes make no such memory, as if they were on two hosts."""


def torchrun(
    tmp_path: Path, program: str, count: int = 2, **variables: str
) -> subprocess.CompletedProcess[str]:
    (tmp_path / "program.py").write_text(program)
    words = ["torch.distributed.run", f"--nproc-per-node={count}", "--master-addr=127.0.0.1"]
    path = os.pathsep.join(each for each in sys.path if each)
    return subprocess.run(
        [sys.executable, "-m", *words, "--standalone", "program.py"],
        cwd=tmp_path,
        env={**os.environ, "UNIDEV_BACKEND": "torch", "PYTHONPATH": path, **variables},
        capture_output=True,
        text=True,
    )


def test_a_run_with_adam_whose_worker_was_killed_has_the_bits_of_an_undisturbed_one(
    tmp_path: Path,
) -> None:
    runs = {}
    for name, fails_at in (("undisturbed", 0), ("killed", 4)):
        place = tmp_path / name
        # Only one failure is made here. But another process may take a port of the run's before a
        # worker listens there, which uses up a retry, too.
        runs[name] = unidev.run(
            run_with_adam.train, str(place), fails_at, backend="torch", retries=3, checkpoints=place
        )
    (begun, bits), other = runs["undisturbed"]
    assert (begun, other) == (0, (0, bits))
    assert bits != b""
    assert runs["killed"] == [(2, bits)] * 2


def test_workers_join_gloo_when_it_is_needed_and_share_what_the_first_step_writes() -> None:
    # 32 workers, each with its own copy of both, held 1,435 MiB in place of 770.
    found = unidev.run(run_with_adam.engines_joined, workers=2, backend="torch", start="fork")
    assert found == [[False, False, True]] * 2


def test_a_checkpoint_reaches_the_workers_by_the_engine_not_through_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    through_the_driver = 0
    send = WorkerHost.send

    def counted(host: WorkerHost, rank: int, frame: Frame) -> None:
        nonlocal through_the_driver
        through_the_driver += len(frame.body)
        send(host, rank, frame)

    monkeypatch.setattr(WorkerHost, "send", counted)
    found = unidev.run(
        run_with_adam.restored, workers=3, backend="torch", checkpoints=tmp_path / "points"
    )
    assert found == [(7, 2.5, 0.2)] * 3
    files = sum(each.stat().st_size for each in (tmp_path / "points").rglob("*.safetensors"))
    assert files > 6_000_000
    assert through_the_driver < 100_000


@pytest.mark.parametrize(("first", "shares"), [("", True), (WITHOUT_MEMORY, False)])
def test_a_group_joins_what_torchrun_has_started(tmp_path: Path, first: str, shares: bool) -> None:
    done = torchrun(tmp_path, first + TORCHRUN)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(f"[[1.5, 1.5, 1.5], [300.0, 300.0], [1, 2]] {shares}") == 2
    assert done.stdout.count("at the end: False []") == 2
    assert done.stdout.count("shape (3,), but worker 1 has a float32 tensor of shape (4,)") == 2


def test_every_difference_under_torchrun_is_an_error_on_every_worker(tmp_path: Path) -> None:
    done = torchrun(tmp_path, DIFFERENCES, 3)
    assert done.returncode == 0, done.stderr
    first, *others = (json.loads((tmp_path / f"heard-by-{rank}").read_text()) for rank in range(3))
    assert [*first] == [*run_samples.DIFFERENCES]
    assert all("worker 0" in words and "but worker 1" in words for words in first.values()), first
    assert all(other == first for other in others)


ONE_STAYS_AWAY = """
import time
from pathlib import Path

import unidev

group = unidev.group()
group.barrier()
if group.rank == 1:
    while not Path("heard").exists():  # until the other has given up: torchrun would end both
        time.sleep(0.1)
else:
    try:
        group.all_reduce(unidev.ones(1))
    except unidev.CollectiveError as error:
        print(error)
    Path("heard").touch()
"""


@pytest.mark.parametrize(
    ("first", "words"), [("", "2: … this step"), (WITHOUT_MEMORY, "3: … the step before")]
)
def test_after_a_backward_that_raised_all_workers_of_torchrun_refuse_one_step_and_go_on(
    tmp_path: Path, first: str, words: str
) -> None:
    done = torchrun(tmp_path, first + RAISING, UNIDEV_TORCHRUN_TIMEOUT="30")
    assert done.returncode == 0, done.stderr
    here, there = (json.loads((tmp_path / f"heard-by-{rank}").read_text()) for rank in range(2))
    said = "worker 1 raised an exception in its backward, so the gradients of"
    refused = f"{words.replace('…', said)} are not those of all workers."
    assert here == [refused]
    assert "it is enough" in there[0]
    assert there[1:] == ([refused] if first else [])


def test_a_worker_of_torchrun_waits_as_long_as_the_user_says(tmp_path: Path) -> None:
    done = torchrun(tmp_path, ONE_STAYS_AWAY, UNIDEV_TORCHRUN_TIMEOUT="8")
    assert done.returncode == 0, done.stderr
    assert "worker 1 has not come to all_reduce within 8 s." in done.stdout


def test_whoever_waits_for_a_worker_of_torchrun_that_was_killed_hears_so_and_strangers_nothing(
    tmp_path: Path,
) -> None:
    done = torchrun(tmp_path, KILLED)
    assert "worker 1 has ended." in done.stdout
    if os.getuid() == 0:  # who else can be a stranger
        assert "a stranger sees b''" in done.stdout


def test_a_process_that_waits_for_the_others_of_torchrun_says_so() -> None:
    """Variables that an earlier program has left in the shell: nobody else will come."""
    left = {"RANK": "0", "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    waiting = subprocess.Popen(
        [sys.executable, "-c", "import unidev; unidev.group()"],
        env={**os.environ, "UNIDEV_BACKEND": "torch", **left},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert waiting.stderr is not None
        said = waiting.stderr.readline()
    finally:
        waiting.kill()
        waiting.communicate()
    assert said.startswith("unidev: waiting for the other 3 workers that torchrun has started")
    assert "unset RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT: " in said


def test_each_worker_draws_its_own_numbers_though_all_are_forked_from_one() -> None:
    found = unidev.run(torch.initial_seed, workers=3, backend="torch", gpus_per_worker=0)
    assert len({*found}) == 3
