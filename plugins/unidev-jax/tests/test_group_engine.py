"""gloo of JAX's behind unidev's groups, between machines, in real processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import apart
import engine_samples
import pytest
from engine_checks import check_engine, check_two_hosts, not_carried

import unidev

if TYPE_CHECKING:
    from pathlib import Path


def test_three_workers_get_the_exact_result(tmp_path: Path) -> None:
    found = check_engine("jax", 3, tmp_path, "gpu:1", has_folder=False, UNIDEV_SIMULATE="2")
    exchanged = {"sum of complex64", "sum of uint64", "gather of bfloat16", "max of float16"}
    assert exchanged <= found.exchanged
    assert found.listens == [{"127.0.0.1"}] * 3 + [{"::ffff:127.0.0.1"}]  # and no other address
    assert found.helpers == [None]  # the launcher ends it


def test_between_hosts_whose_names_resolve_to_loopback(tmp_path: Path) -> None:
    check_two_hosts("jax", tmp_path)


def test_what_does_not_travel_by_it() -> None:
    unordered = {"bool", "complex64", "complex128"}
    assert not_carried("jax") == {
        "sum": {"bool"},
        "min": unordered,
        "max": unordered,
        "broadcast": set(),
        "gather": set(),
    }


def test_workers_of_one_machine_exchange_through_its_memory() -> None:
    for found in unidev.run(engine_samples.exchanged_by, workers=2, backend="jax"):
        assert found["engines"] == ["HostEngine"]
        assert found["sum"] == [[3.0, 3.0], [1, 4], []]


def test_runs_of_workers_that_are_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """As between machines: what they exchange, and who is named when one fails."""
    apart.share_no_folder(monkeypatch)
    expected = {
        "engines": ["JaxEngine"],
        "sum": [[3.0, 3.0], [1, 4], []],
        "half": [450.0, 450.0],
        "large": [3.0],
        "broadcast": [1.0, 1.0],
        "gathered": [[False], [True]],
        "processes": 1,
    }
    both = unidev.run(apart.exchanged, workers=2, backend="jax", timeout=60)
    for rank, (found, by_mutant) in enumerate(both):
        assert found == expected
        wrong = {name for name in by_mutant if by_mutant[name] != expected[name]}
        assert wrong == {"sum", "half", "large"} | ({"broadcast"} if rank == 0 else set())
    for how, rank, words in (
        ("killed", 0, "was killed by SIGKILL"),
        ("sys.exit", 1, r"called sys.exit\('enough'\)"),
        ("stopped", 1, r"it is stopped \(SIGSTOP\)"),
    ):
        with pytest.raises(unidev.WorkerFailedError, match=words) as caught:
            unidev.run(apart.failing, how, rank, workers=2, backend="jax", timeout=10)
        assert caught.value.rank == rank
