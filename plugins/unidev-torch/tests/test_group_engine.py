"""torch.distributed behind unidev's groups, in real processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from engine_checks import (
    after_a_death,
    check_exchange,
    check_leaving,
    check_repeated,
    listened_on,
    not_carried,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("size", [2, 3])
def test_what_it_carries_is_exact_and_the_same_on_all_ranks(size: int, tmp_path: Path) -> None:
    found = check_exchange("torch", size, tmp_path, UNIDEV_SIMULATE="0")
    assert {"sum of complex64", "sum of uint64", "gather of bfloat16", "max of float16"} <= found


def test_simulated_devices_travel_through_the_host(tmp_path: Path) -> None:
    assert "sum of float32" in check_exchange("torch", 2, tmp_path, "gpu:1", UNIDEV_SIMULATE="2")


def test_what_does_not_travel_by_it() -> None:
    without = not_carried("torch")
    unordered = {"bool", "complex64", "complex128", "uint64"}
    assert without == {
        "sum": {"bool"},
        "min": unordered,
        "max": unordered,
        "broadcast": set(),
        "gather": set(),
    }


def test_many_exchanges_do_not_mix(tmp_path: Path) -> None:
    check_repeated("torch", 2, tmp_path)


def test_it_listens_on_loopback_alone(tmp_path: Path) -> None:
    assert listened_on("torch", tmp_path) == [{"127.0.0.1"}, {"127.0.0.1"}]


def test_leaving_waits_for_no_worker(tmp_path: Path) -> None:
    check_leaving("torch", tmp_path)


def test_the_death_of_a_worker_is_an_error_of_the_framework(tmp_path: Path) -> None:
    answer, _ = after_a_death("torch", tmp_path)
    assert answer is not None
    assert answer.startswith("RuntimeError: "), answer


def test_between_machines_the_store_is_rank_0(tmp_path: Path) -> None:
    first, second = listened_on("torch", tmp_path, has_folder=False)
    assert first  # where it is depends on the name of this host
    assert second
