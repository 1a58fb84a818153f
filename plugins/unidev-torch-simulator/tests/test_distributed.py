"""``torch.distributed`` on simulated GPUs: each question in two and three processes.

In two under the name ``cuda``, in three under ``sim``: the engine is the same.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from once import once

if TYPE_CHECKING:
    from collections.abc import Sequence

HERE = Path(__file__).parent
COLLECTIVES, TRAINING = (
    HERE / "distributed_questions.py", HERE / "distributed_questions_of_training.py"
)  # fmt: skip
FILES = {
    COLLECTIVES: [COLLECTIVES, HERE / "distributed_questions_of_refusals.py"],
    TRAINING: [TRAINING],
}
PROGRAMS = {
    name: program
    for program, files in FILES.items()
    for file in files
    for name in re.findall(r"^@question\ndef (\w+)", file.read_text(), re.MULTILINE)
}
IN_DETAIL = [
    name
    for name, program in PROGRAMS.items()
    if program == COLLECTIVES or name in {"ddp", "fsdp1", "fsdp2"}
]


def _started(words: Sequence[str], **variables: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "UNIDEV_SIMULATE": "0", "OMP_NUM_THREADS": "1", **variables}
    return subprocess.Popen(
        [sys.executable, "-X", "faulthandler", *words], env=environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def _asked(
    folder: Path, size: int, name: str = "cuda", only: Sequence[str] = (), **variables: str
) -> list[dict[str, Any]]:
    """For each rank its answers to the questions of both programs, or to some."""
    answers: list[dict[str, Any]] = [{} for _ in range(size)]
    for program in (COLLECTIVES, TRAINING):
        chosen = [each for each in only if PROGRAMS[each] == program]
        if only and not chosen:
            continue
        store = (folder / program.stem).as_uri()
        started = [
            _started([str(program), str(rank), str(size), store, name, *chosen], **variables)
            for rank in range(size)
        ]
        for each, answer in zip(started, answers, strict=True):
            output, errors = each.communicate(timeout=300)
            lines = [line for line in output.splitlines() if line.startswith("found ")]
            assert len(lines) == 1, errors[-4000:]
            assert each.returncode == 0, errors[-4000:]
            answer.update(json.loads(lines[0].removeprefix("found ")))
    return answers


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return once(tmp_path_factory, "two", lambda folder: _asked(folder, 2, "cuda"))


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return once(tmp_path_factory, "three", lambda folder: _asked(folder, 3, "sim"))


@pytest.fixture(scope="module")
def detail(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    def ask(folder: Path) -> list[dict[str, Any]]:
        return _asked(folder, 2, only=IN_DETAIL, TORCH_DISTRIBUTED_DEBUG="DETAIL")

    return once(tmp_path_factory, "detail", ask)


@pytest.mark.parametrize("name", PROGRAMS)
def test_in_two_processes(name: str, two: list[dict[str, Any]]) -> None:
    assert [each[name] for each in two] == ["ok", "ok"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_in_three_processes(name: str, three: list[dict[str, Any]]) -> None:
    assert [each[name] for each in three] == ["ok", "ok", "ok"]


@pytest.mark.parametrize("name", IN_DETAIL)
def test_with_torchs_own_checks_of_each_call(name: str, detail: list[dict[str, Any]]) -> None:
    assert [each[name] for each in detail] == ["ok", "ok"]


def test_each_operator_of_torch_is_ours_and_one_that_it_adds_is_refused_by_name() -> None:
    program = """
from unidev.contract import SimulatedGpus
from unidev_torch_simulator import TorchSimulator
TorchSimulator().before_import(SimulatedGpus(count=1, name="cuda"))
import torch
from torch._C import _distributed_c10d as c10d
from unidev_torch_simulator.distributed import backend
from unidev_torch_simulator.distributed.operators import kernels
print(sorted(set(kernels.operators()) - set(kernels.KERNELS)))
base = {n for n in dir(c10d.Backend) if callable(getattr(c10d.Backend, n)) and n[:2] != "__"}
own = {n for n in dir(c10d.ProcessGroupNCCL) if n in vars(c10d.ProcessGroupNCCL)}
harmless = {"Options", "_get_sequence_number_for_group", "_pybind11_conduit_v1_", "rank", "size",
            "_set_sequence_number_for_group", "supports_shrinking"}
print(sorted(base - own - harmless))
try:
    kernels._refusing("gather_everything_")(1)
except NotImplementedError as error:
    print(error)
"""
    child = _started(["-c", program])
    output, errors = child.communicate(timeout=300)
    assert output.splitlines()[:2] == ["[]", "[]"], output + errors[-2000:]
    assert "c10d::gather_everything_" in output


BOTH_WAYS = """
import unidev

import torch
from torch import nn


def train():
    group = unidev.group()
    torch.manual_seed(7)
    x, y = (each.chunk(2)[group.rank].to(group.device.native)
            for each in (torch.randn(8, 6), torch.randn(8, 3)))

    def net():
        torch.manual_seed(group.rank)  # all begin with the weights of rank 0
        made = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
        return unidev.place(made, group.device)

    def loss(model, x, y):
        return (model(x) - y).pow(2).mean()

    ours, theirs = unidev.DataParallel(net()), nn.parallel.DistributedDataParallel(net())
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.1)
    for _ in range(5):
        gradients = unidev.value_and_grad(loss)(ours, x, y)[1]
        unidev.sgd(ours, gradients, lr=0.1)
        optimizer.zero_grad()
        loss(theirs, x, y).backward()
        optimizer.step()
    pairs = zip(ours.model.parameters(), theirs.parameters(), strict=True)
    assert max((a - b).abs().max().item() for a, b in pairs) <= 1e-6
    print(torch.distributed.get_backend_config())


if __name__ == "__main__":
    unidev.run(train, workers=2, gpus_per_worker=1)
"""


@pytest.mark.parametrize(
    ("variables", "engines"),
    [({}, "cpu:gloo,sim:simccl"), ({"UNIDEV_SIMULATE_AS": "cuda"}, "cpu:gloo,cuda:nccl")],
)
def test_data_parallel_and_ddp_train_to_the_same_parameters(
    variables: dict[str, str], engines: str, tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(BOTH_WAYS)
    words = {"UNIDEV_BACKEND": "torch", **variables, "UNIDEV_SIMULATE": "2"}
    output, errors = _started([str(tmp_path / "program.py")], **words).communicate(timeout=300)
    assert output.count(engines) == 2, errors[-4000:]


ENDED = """
import sys
from datetime import timedelta

import unidev

import torch
import torch.distributed as dist

rank, store, engine = int(sys.argv[1]), *sys.argv[2:]
device = unidev.gpu(rank).native
for number in range(25):
    dist.init_process_group(engine, init_method=f"{store}{number}", rank=rank, world_size=2,
                            timeout=timedelta(seconds=60))
    works = [dist.all_reduce(torch.ones(200_000, device=device), async_op=True) for _ in range(3)]
    while works:
        works.pop().wait()
    dist.destroy_process_group()
print("ended")
"""


@pytest.mark.parametrize(("name", "engine"), [("cuda", "nccl"), ("sim", "simccl")])
def test_a_group_may_end_as_soon_as_its_last_collective_has(
    name: str, engine: str, tmp_path: Path
) -> None:
    named = {"UNIDEV_SIMULATE_AS": name} if name == "cuda" else {}
    words = {"UNIDEV_BACKEND": "torch", **named, "UNIDEV_SIMULATE": "2"}
    store = (tmp_path / "store").as_uri()
    ranks = [_started(["-c", ENDED, str(rank), store, engine], **words) for rank in range(2)]
    try:
        for each in ranks:
            output, errors = each.communicate(timeout=120)
            assert output == "ended\n", errors[-4000:]
    finally:
        for each in ranks:
            each.kill()  # one that waits for a rank that has aborted


FORKED = """
import sys
from datetime import timedelta

import unidev

import torch
import torch.distributed as dist
from torch.multiprocessing import start_processes


def train(rank, store):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=store, rank=rank, world_size=2,
                            timeout=timedelta(seconds=60))
    x = torch.ones(2, device="cuda")
    dist.all_reduce(x)
    sys.stdout.write(f"{x}\\n")  # in one piece
    sys.stdout.flush()


if __name__ == "__main__":
    unidev.set_backend("torch")
    assert torch.cuda.device_count() == 2
    if sys.argv[2] == "used":
        torch.ones(1, device="cuda")
    start_processes(train, (sys.argv[1],), 2, start_method="fork")
"""


@pytest.mark.parametrize("before", ["unused", "used"])
def test_forked_workers_have_gpus_that_their_parent_has_not_used(
    before: str, tmp_path: Path
) -> None:
    words = {"UNIDEV_BACKEND": "torch", "UNIDEV_SIMULATE_AS": "cuda", "UNIDEV_SIMULATE": "2"}
    store = (tmp_path / "store").as_uri()
    output, errors = _started(["-c", FORKED, store, before], **words).communicate(timeout=300)
    if before == "unused":
        assert sorted(output.splitlines()) == [
            "tensor([2., 2.], device='cuda:0')", "tensor([2., 2.], device='cuda:1')",
        ], errors[-4000:]  # fmt: skip
    else:
        assert output == ""
        assert "Cannot re-initialize CUDA in forked subprocess" in errors


TRACED = """
import sys

import unidev

import torch
import torch.distributed as dist

unidev.gpu(0)
device, engine = sys.argv[2:]
dist.init_process_group(engine, init_method=sys.argv[1], rank=0, world_size=1)
net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(30, 30).to(device))
with unidev.trace_transfers() as trace:
    net(torch.ones(8, 30, device=device)).sum().backward()
    x = torch.ones(2).to(device)
    dist.all_reduce(x)
    dist.all_reduce(x, async_op=True).wait()
print("moved", [each.nbytes for each in trace.transfers])
dist.destroy_process_group()
"""


@pytest.mark.parametrize(("name", "engine"), [("cuda", "nccl"), ("sim", "simccl")])
def test_a_trace_has_the_programs_transfers_and_none_of_the_exchange(
    name: str, engine: str, tmp_path: Path
) -> None:
    named = {"UNIDEV_SIMULATE_AS": name} if name == "cuda" else {}
    child = _started(
        ["-c", TRACED, (tmp_path / "store").as_uri(), f"{name}:0", engine],
        **{"UNIDEV_BACKEND": "torch", **named, "UNIDEV_SIMULATE": "1"},
    )
    output, errors = child.communicate(timeout=300)
    assert output == "moved [8]\n", errors[-4000:]
