"""``torch.distributed`` on simulated GPUs when a rank fails, stays away, or calls another thing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from once import once

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
SHARED = ("one_device", "one_device_by_variable")
OPERATIONS = {
    "absent": "ALLREDUCE", "absent_sender": "RECV", "killed": "ALLREDUCE",
    "without_the_second": "ALLREDUCE",  # ranks meet at the first collective, not before
}  # fmt: skip
"""What the first rank waits for in vain."""
DIFFERENT = {
    "other_shape:DETAIL": ("Tensor Tensor shapes: [2, 2] vs [2, 3]", "[2, 3] vs [2, 2]"),
    "other_shape_on_gloo:DETAIL": ("Tensor Tensor shapes: [2, 2] vs [2, 3]", "[2, 3] vs [2, 2]"),
    "other_dtype:DETAIL": ("Tensor Tensor dtypes: Float vs Half", "Half vs Float"),
    "other_collective:DETAIL": ("Op type: ALLREDUCE vs BROADCAST", "BROADCAST vs ALLREDUCE"),
}
"""What each rank is told."""
CASES = (
    *SHARED, *OPERATIONS, *DIFFERENT, "own_device_by_variable", "absent:DETAIL", "barrier_first",
    "pair_of_three", "unwaited",
)  # fmt: skip


class Ended(NamedTuple):
    """What each rank printed, and the first one's stderr."""

    first: str
    second: str
    errors: str


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Ended]:
    found = once(tmp_path_factory, "ended", _ended)

    def of(case: str) -> Ended:
        *said, status = found[case]
        assert status == 0, said
        return Ended(*said)

    return of


def _ended(folder: Path) -> dict[str, Any]:
    """By case what the ranks printed, and the status."""
    done = subprocess.run(
        [sys.executable, HERE / "distributed_failures.py", folder, *CASES],
        capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "UNIDEV_SIMULATE": "0", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return {case: said for case, *said in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("case", SHARED)
def test_two_ranks_on_one_gpu_are_refused_by_both(case: str, ended: Callable[[str], Ended]) -> None:
    for output in ended(case)[:2]:
        assert "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device" in output


def test_each_rank_may_see_its_own_gpu_as_the_first(ended: Callable[[str], Ended]) -> None:
    assert ended("own_device_by_variable")[:2] == ("summed [2.0, 2.0, 2.0]\n",) * 2


@pytest.mark.parametrize("case", OPERATIONS)
def test_a_rank_that_does_not_come_is_an_error_that_names_the_operation(
    case: str, ended: Callable[[str], Ended]
) -> None:
    output = ended(case).first
    assert output.startswith("DistBackendError"), output
    assert f"OpType={OPERATIONS[case]}," in output


@pytest.mark.parametrize("case", DIFFERENT)
def test_calls_that_differ_between_ranks_are_named_in_detail(
    case: str, ended: Callable[[str], Ended]
) -> None:
    for rank, (output, words) in enumerate(zip(ended(case)[:2], DIFFERENT[case], strict=True)):
        mismatch = f"Detected mismatch between collectives on ranks. Rank {rank} is running "
        assert mismatch in output, output
        assert f"but Rank {1 - rank} is running collective: CollectiveFingerPrint(" in output
        assert words in output


def test_in_detail_a_rank_that_does_not_come_is_named(ended: Callable[[str], Ended]) -> None:
    output = ended("absent:DETAIL").first
    assert "Ranks 1 failed to pass monitoredBarrier in 3000 ms" in output
    assert "OpType=ALLREDUCE, TensorShape=[3], TensorDtypes=Float" in output


def test_a_barrier_may_come_before_a_rank_has_chosen_its_gpu(ended: Callable[[str], Ended]) -> None:
    assert ended("barrier_first")[:2] == ("summed [2.0, 2.0, 2.0]\n",) * 2


def test_two_ranks_send_and_receive_without_the_third(ended: Callable[[str], Ended]) -> None:
    expected = ("summed [2.0, 2.0, 2.0]\n", "summed [1.0, 1.0, 1.0]\n")
    assert ended("pair_of_three")[:2] == expected


def test_a_failed_collective_that_nobody_waits_for_is_written_to_stderr(
    ended: Callable[[str], Ended],
) -> None:
    said = "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL("
    assert said in ended("unwaited").errors
