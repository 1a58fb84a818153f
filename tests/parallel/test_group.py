"""``unidev.group()``: each collective, over the launcher's own channel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import odd_workers
import pytest
import run_samples

import unidev
from unidev.system.settings import TORCHRUN_TIMEOUT

if TYPE_CHECKING:
    from core_fixtures import RunPython


@pytest.fixture(scope="module", params=[1, 2, 3])
def found(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    """What each worker of a run got."""
    return unidev.run(run_samples.everything, workers=request.param, backend="numpy")


def base(size: int) -> Any:
    return np.stack([np.arange(3, dtype=np.float32) + rank for rank in range(size)])


def test_all_workers_get_the_same(found: list[dict[str, Any]]) -> None:
    for other in found[1:]:
        for name in found[0].keys() - {"rows"}:
            assert str(found[0][name]) == str(other[name]), name


def test_reductions_are_those_of_all_workers(found: list[dict[str, Any]]) -> None:
    size, own = len(found), found[0]
    np.testing.assert_array_equal(own["sum"]["w"], base(size).sum(0))
    assert own["sum"]["name"] == "x"
    assert own["sum"]["n"].tolist() == [sum(7 - n for n in range(size)), sum(range(size))]
    assert own["sum"]["n"].dtype == np.int64
    np.testing.assert_allclose(own["mean"], base(size).mean(0), rtol=1e-6)
    assert own["min"].tolist() == [7 - (size - 1), 0]
    assert own["max"].tolist() == [7, size - 1]


def test_means_are_weighted(found: list[dict[str, Any]]) -> None:
    size, own = len(found), found[0]
    weights = np.arange(1, size + 1)
    np.testing.assert_allclose(
        own["weighted"], np.average(base(size), axis=0, weights=weights), rtol=1e-6
    )
    listed = [1.0] + [3.0] * (size - 1)
    np.testing.assert_allclose(
        own["listed"], np.average(base(size), axis=0, weights=listed), rtol=1e-6
    )


def test_float16_is_summed_in_float32(found: list[dict[str, Any]]) -> None:
    assert found[0]["half"].dtype == np.float16
    assert found[0]["half"].tolist() == [300.0, 300.0]


def test_broadcast_and_all_gather_bring_the_values_of_others(found: list[dict[str, Any]]) -> None:
    size = len(found)
    for own in found:
        np.testing.assert_array_equal(own["broadcast"]["w"], base(size)[-1])
        assert own["bool"].tolist() == [True]
        for rank, (w, empty) in enumerate(own["gathered"]):
            np.testing.assert_array_equal(w, base(size)[rank])
            assert empty.shape == (0, 2)


def test_each_worker_gets_its_rows(found: list[dict[str, Any]]) -> None:
    rows = [own["rows"]["x"].tolist() for own in found]
    assert [x for part in rows for x in part] == list(range(5))
    assert max(map(len, rows)) - min(map(len, rows)) <= 1


def test_inputs_stay_as_they_are_and_ties_stay(found: list[dict[str, Any]]) -> None:
    assert all(own["is_kept"] and own["is_tied"] for own in found)


def test_in_place_writes_to_the_tensors_themselves(found: list[dict[str, Any]]) -> None:
    total = float(sum(range(1, len(found) + 1)))
    for own in found:
        assert own["in_place"]
        assert own["large"] == (total, total)
        np.testing.assert_array_equal(own["w"], base(len(found)).sum(0))


def test_all_workers_get_the_same_bits_in_every_run() -> None:
    runs = [unidev.run(odd_workers.many_sums, 20, workers=3, backend="numpy") for _ in range(2)]
    assert len({bits for run in runs for bits in run}) == 1


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
