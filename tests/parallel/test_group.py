"""``unidev.group()``: each collective, over the launcher's own channel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import run_samples

import unidev
from unidev.system.settings import TORCHRUN_TIMEOUT

if TYPE_CHECKING:
    from core_fixtures import RunPython


@pytest.fixture(scope="module", params=[1, 2])
def found(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    """What each worker of a run got."""
    return unidev.run(run_samples.everything, workers=request.param, backend="numpy")


def test_each_worker_gets_its_rows(found: list[dict[str, Any]]) -> None:
    rows = [own["rows"]["x"].tolist() for own in found]
    assert [x for part in rows for x in part] == list(range(5))
    assert max(map(len, rows)) - min(map(len, rows)) <= 1


def test_inputs_stay_as_they_are_and_ties_stay(found: list[dict[str, Any]]) -> None:
    assert all(own["is_kept"] and own["is_tied"] for own in found)


@pytest.fixture(scope="module")
def heard() -> list[dict[str, str]]:
    """What each of three workers hears of every difference."""
    return unidev.run(run_samples.all_differences, workers=3, backend="numpy")


@pytest.mark.parametrize("how", run_samples.DIFFERENCES)
def test_a_difference_is_an_error_on_every_worker(how: str, heard: list[dict[str, str]]) -> None:
    found = [own[how] for own in heard]
    assert len(set(found)) == 1
    assert "worker 0" in found[0]
    assert "but worker 1" in found[0]


def test_the_listed_weights_that_differ_are_named(heard: list[dict[str, str]]) -> None:
    assert "weight 1.0 for worker 0, but worker 1 has weight 2.0 for" in heard[0]["weights"]


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
