"""``init_process_group("nccl")`` on simulated `cuda`: each question in two and three processes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

HERE = Path(__file__).parent
NAMES = re.findall(r"^@question\ndef (\w+)", (HERE / "nccl_questions.py").read_text(), re.MULTILINE)
IN_THREE = (
    "all_reduce", "all_gather_uneven", "reduce_scatter", "all_to_all_splits", "gather", "scatter",
    "batched_transfers", "subgroup", "split", "ddp", "fsdp2", "pipeline",
)  # fmt: skip


def _started(words: Sequence[str], **variables: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "UNIDEV_SIMULATE": "0", "OMP_NUM_THREADS": "1", **variables}
    return subprocess.Popen(
        [sys.executable, "-X", "faulthandler", *words], env=environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def _asked(folder: Path, size: int, only: Sequence[str] = ()) -> list[dict[str, Any]]:
    store = (folder / "store").as_uri()
    program = str(HERE / "nccl_questions.py")
    started = [_started([program, str(rank), str(size), store, *only]) for rank in range(size)]
    found = []
    for each in started:
        output, errors = each.communicate(timeout=300)
        lines = [line for line in output.splitlines() if line.startswith("found ")]
        assert len(lines) == 1, errors[-4000:]
        assert each.returncode == 0, errors[-4000:]
        found.append(json.loads(lines[0].removeprefix("found ")))
    return found


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return _asked(tmp_path_factory.mktemp("two"), 2)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return _asked(tmp_path_factory.mktemp("three"), 3, IN_THREE)


@pytest.mark.parametrize("name", NAMES)
def test_in_two_processes(name: str, two: list[dict[str, Any]]) -> None:
    assert [each["found"][name] for each in two] == ["ok", "ok"]


@pytest.mark.parametrize("name", IN_THREE)
def test_in_three_processes(name: str, three: list[dict[str, Any]]) -> None:
    assert [each["found"][name] for each in three] == ["ok", "ok", "ok"]


def test_each_mutant_that_loses_a_part_is_caught(two: list[dict[str, Any]]) -> None:
    assert len(two[0]["caught"]) > 20
    assert [name for name, caught in two[0]["caught"].items() if not caught] == []


def _ends(folder: Path, case: str) -> tuple[str, str]:
    store = (folder / "store").as_uri()
    program = str(HERE / "nccl_failures.py")
    first, second = (_started([program, str(rank), store, case]) for rank in range(2))
    errors = ""
    output, errors = first.communicate(timeout=300)
    assert first.returncode == 0, errors[-4000:]
    return output, second.communicate(timeout=300)[0]


@pytest.mark.parametrize("case", ["one_device", "one_device_by_variable"])
def test_two_ranks_on_one_gpu_are_refused_by_both(case: str, tmp_path: Path) -> None:
    for output in _ends(tmp_path, case):
        assert "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device" in output


def test_each_rank_may_see_its_own_gpu_as_the_first(tmp_path: Path) -> None:
    assert _ends(tmp_path, "own_device_by_variable") == ("summed [2.0, 2.0, 2.0]\n",) * 2


@pytest.mark.parametrize(
    ("case", "operation"),
    [("absent", "ALLREDUCE"), ("absent_sender", "RECV"), ("killed", "ALLREDUCE")],
)
def test_a_rank_that_does_not_come_is_an_error_that_names_the_operation(
    case: str, operation: str, tmp_path: Path
) -> None:
    output = _ends(tmp_path, case)[0]
    assert output.startswith("DistBackendError"), output
    assert f"OpType={operation}," in output


def test_each_operator_of_torch_is_ours_and_one_that_it_adds_is_refused_by_name() -> None:
    program = """
from unidev.contract import SimulatedGpus
from unidev_torch.simulator import TorchSimulator
TorchSimulator().before_import(SimulatedGpus(count=1, name="cuda"))
import torch
from torch._C import _distributed_c10d as c10d
from unidev_torch.simulator.cuda.nccl import backend, kernels
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
