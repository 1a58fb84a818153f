"""``unidev.group()``: each collective, over the launcher's own channel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import unidev
from unidev.system.settings import TORCHRUN_TIMEOUT

if TYPE_CHECKING:
    from core_fixtures import RunPython


def test_a_process_that_is_no_worker_is_a_group_of_one() -> None:
    group = unidev.group()
    x = unidev.ones(3)
    assert (group.rank, group.size, str(group.device)) == (0, 1, "cpu:0")
    assert not unidev.shares_memory(group.all_reduce(x, "mean", weights=2), x)
    assert unidev.to_numpy(group.all_reduce(x, "mean", weights=2)).tolist() == [1.0] * 3
    group.barrier()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda g: g.all_reduce(unidev.ones(2), "average"), "InvalidDataError", "op must be"),
        (lambda g: g.all_reduce(unidev.ones(2), weights=1), "InvalidDataError", "of a mean"),
        (lambda g: g.all_reduce(unidev.ones(2), "mean", weights=0), "InvalidDataError", "positive"),
        (lambda g: g.all_reduce(unidev.arange(2), "mean"), "UnsupportedDtypeError", "no mean of"),
        (lambda g: g.broadcast(unidev.ones(2), 1), "InvalidDataError", "rank from 0 to 0"),
        (lambda g: g.all_reduce({}), "NotATensorError", "no tensors"),
    ],
)
def test_bad_input_is_named(call: Any, error: str, words: str) -> None:
    with pytest.raises(getattr(unidev, error), match=words):
        call(unidev.group())


def test_what_torchrun_has_started_is_not_taken_for_a_group_of_one(run_python: RunPython) -> None:
    program = """
        import unidev
        try:
            unidev.group()
        except unidev.UnsupportedOperation as error:
            print(error)
    """
    given = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    assert "start them by `unidev launch`" in run_python(program, UNIDEV_BACKEND="numpy", **given)


@pytest.mark.parametrize("seconds", ["soon", "-1", "0", "inf", "nan"])
def test_a_limit_that_is_no_number_of_seconds_is_named(
    monkeypatch: pytest.MonkeyPatch, seconds: str
) -> None:
    monkeypatch.setenv(TORCHRUN_TIMEOUT, seconds)
    words = f"UNIDEV_TORCHRUN_TIMEOUT='?{seconds}'? must be a positive number of seconds"
    with pytest.raises(unidev.InvalidDataError, match=words):
        TORCHRUN_TIMEOUT.value()


def test_a_limit_is_as_the_variable_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TORCHRUN_TIMEOUT, "2.5")
    assert TORCHRUN_TIMEOUT.value() == 2.5
    monkeypatch.setenv(TORCHRUN_TIMEOUT, "")
    assert TORCHRUN_TIMEOUT.value() == 600.0
