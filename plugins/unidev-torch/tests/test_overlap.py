"""Gradients exchanged while backward runs: what is right, what is refused, and who is named."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import overlapping
import pytest

import unidev

if TYPE_CHECKING:
    from pathlib import Path


IN_ONE_RUN: dict[tuple[int, int], list[tuple[str, ...]]] = {
    (2, 0): [
        *(
            ("beside_the_end", kind, reduction)
            for kind in ("half", "tied", "unused", "normed", "integer_buffer")
            for reduction in ("mean", "sum")
        ),
        *(("beside_the_end", kind, "mean") for kind in ("penalised", "recomputed", "narrow")),
        *(("narrow_error", dtype) for dtype in ("float16", "bfloat16")),
        ("raising_in_backward",), ("all_raising_in_backward",), ("exchanging_in_backward",),
        ("freezing",), ("another_loss",), ("traced",),
    ],
    (2, 1): [("beside_the_end", "plain", reduction) for reduction in ("mean", "sum")],
    (3, 0): [("beside_the_end", "half", "mean")],
    (4, 0): [("narrow_error", dtype) for dtype in ("float16", "bfloat16")],
}  # fmt: skip
"""By the number of workers and of the GPUs of each: what leaves its workers able to go on.

Starting workers takes longer than what they do, so those of one run do all of it.
"""


def run(function: Any, *arguments: Any, workers: int = 2, gpus: int = 0) -> list[Any]:
    """What each worker returns.

    On CPUs, backward runs in the caller's thread, which may call ``unidev.group()``.
    """
    return unidev.run(function, *arguments, workers=workers, gpus_per_worker=gpus, backend="torch")


@functools.cache
def _in_one_run(workers: int, gpus: int) -> list[dict[tuple[str, ...], Any]]:
    return run(overlapping.one_by_one, IN_ONE_RUN[workers, gpus], workers=workers, gpus=gpus)


def found(*call: str, workers: int = 2, gpus: int = 0) -> list[Any]:
    """The results of a function of ``overlapping``, in several buckets, by worker."""
    return [own[call] for own in _in_one_run(workers, gpus)]


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("kind", ["plain", "half", "tied", "unused", "normed", "integer_buffer"])
def test_gradients_are_those_of_an_exchange_at_the_end(kind: str, reduction: str) -> None:
    for own in found("beside_the_end", kind, reduction, gpus=int(kind == "plain")):
        assert own["buckets"] > 2
        assert own["begun_early"] > 0, "no bucket has begun before the end of backward"
        assert own["differences"] == []
        assert own["hooks"] == 0


def test_a_gradient_within_the_loss_is_not_taken_for_the_steps_own() -> None:
    for own in found("beside_the_end", "penalised", "mean"):
        assert own["begun_early"] > 0
        assert own["differences"] == []


def test_gradients_that_a_function_makes_in_its_own_backward_are_not_taken_for_the_steps() -> None:
    for own in found("beside_the_end", "recomputed", "mean"):
        assert own["begun_early"] > 0
        assert own["differences"] == []


def test_narrow_gradients_are_summed_in_float32() -> None:
    for own in found("beside_the_end", "narrow", "mean"):
        assert own["differences"] == []


@pytest.mark.parametrize(("dtype", "digits"), [("float16", 11), ("bfloat16", 8)])
@pytest.mark.parametrize("workers", [2, 4])
def test_gradients_may_travel_in_half_of_the_bytes(dtype: str, digits: int, workers: int) -> None:
    errors = found("narrow_error", dtype, workers=workers)
    assert len(set(errors)) == 1, "workers have other bits"
    assert 0 < errors[0] < workers / 2**digits


def test_workers_have_equal_bits_whatever_comes_first() -> None:
    digests = [own["digest"] for own in found("beside_the_end", "half", "mean", workers=3)]
    assert len(set(digests)) == 1


def test_an_exception_in_the_middle_is_named_on_the_others_and_all_go_on() -> None:
    here, there = found("raising_in_backward")
    assert here["heard"] == (
        "CollectiveError: worker 1 raised an exception in its backward, so the gradients of this "
        "step are not those of all workers."
    )
    assert "it is enough" in there["heard"]
    assert here["digest"] == there["digest"]


def test_all_may_raise_and_go_on() -> None:
    here, there = found("all_raising_in_backward")
    assert "it is enough" in here["heard"]
    assert "it is enough" in there["heard"]
    assert here["digest"] == there["digest"]


def test_a_worker_that_is_to_end_takes_part_no_more() -> None:
    with pytest.raises(unidev.WorkerFailedError) as caught:
        run(overlapping.in_small_buckets, "interrupted_in_backward")
    assert caught.value.rank == 1
    assert "it left all_reduce number 5 by KeyboardInterrupt at overlapping" in str(caught.value)


def test_a_worker_that_was_interrupted_at_the_end_is_named() -> None:
    here, there = run(overlapping.in_small_buckets, "interrupted_at_the_end")
    assert here == there
    assert "worker 1 cannot exchange any more: it left all_reduce number 4 by Keyboard" in here


def test_a_kill_in_the_middle_names_the_worker() -> None:
    with pytest.raises(unidev.WorkerFailedError) as caught:
        run(overlapping.in_small_buckets, "killed_in_backward")
    assert (caught.value.rank, caught.value.signal) == (1, "SIGKILL")


def test_collectives_in_backward_come_first() -> None:
    for own in found("exchanging_in_backward"):
        assert own["begun_early"] == 0
        assert own["differences"] == []


def test_a_collective_that_was_not_there_in_the_first_step_is_refused() -> None:
    with pytest.raises(unidev.WorkerFailedError, match="a collective in the middle of backward"):
        run(overlapping.in_small_buckets, "exchanging_later")


def test_memory_is_kept_for_the_gradients_of_the_last_structure_alone() -> None:
    for kept in found("freezing"):
        assert kept == [False, False, True]


def test_losses_of_another_dtype_are_exchanged_at_the_end() -> None:
    here, there = found("another_loss")
    assert here == there


def test_a_trace_shows_what_ran_while_backward_did() -> None:
    for own in found("traced"):
        hidden = [hidden_s for _, hidden_s in own["exchanges"]]
        assert hidden[:2] == [0, 0]
        assert 0 < hidden[2] < own["exchanges"][2][0]
        assert own["events"] == ["waited for", "waited for", "while backward runs", "waited for"]
        assert "3 exchanges of gradients with other workers" in own["text"]


PROGRAM = """
import overlapping

overlapping.in_small_buckets("another_loss")
"""


def test_launch_says_how_much_of_the_steps_was_exchange(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "unidev", "launch", "--backend", "torch", str(program)]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ran = subprocess.run(
        command, capture_output=True, text=True, check=False, env=variables, cwd=tmp_path
    )
    assert ran.returncode == 0, ran.stderr
    said = [line for line in ran.stderr.splitlines() if line.startswith("unidev: worker")]
    for rank, line in enumerate(said):
        found = re.fullmatch(
            rf"unidev: worker {rank}: 4 steps in (.*), exchanging for (\d+)% of them; "
            r"(\d+)% of that was hidden behind computing\.",
            line,
        )
        assert found, line
        assert 0 < int(found[2]) <= 100
        assert 0 <= int(found[3]) < 100
    assert len(said) == 2
