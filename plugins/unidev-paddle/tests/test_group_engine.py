"""paddle.distributed behind unidev's groups, in real processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine_checks import check_engine, check_run, check_two_hosts, not_carried

if TYPE_CHECKING:
    from pathlib import Path


def test_three_workers_get_the_exact_result(tmp_path: Path) -> None:
    found = check_engine("paddle", 3, tmp_path, UNIDEV_SIMULATE="0")
    assert {"sum of complex64", "gather of bfloat16", "max of float32"} <= found.exchanged
    # As Arrangement.listens says; gloo's own listeners are gone once all are connected.
    assert found.listens in ([{"0.0.0.0"}, set(), set()], [{"::"}, set(), set()])


def test_between_machines_workers_are_counted_in_the_store(tmp_path: Path) -> None:
    check_engine("paddle", 2, tmp_path, has_folder=False, UNIDEV_SIMULATE="0")


def test_simulated_devices_travel_through_the_host(tmp_path: Path) -> None:
    found = check_engine("paddle", 2, tmp_path, "gpu:1", UNIDEV_SIMULATE="2")
    assert "sum of float32" in found.exchanged


def test_what_does_not_travel_by_it() -> None:
    unordered = {"bool", "complex64", "complex128"}
    assert not_carried("paddle") == {
        "sum": {"bool"},
        "min": unordered,
        "max": unordered,
        "broadcast": set(),
        "gather": set(),
    }


def test_a_run_exchanges_by_it() -> None:
    check_run("paddle", "PaddleEngine")


def test_between_hosts_whose_names_resolve_to_loopback(tmp_path: Path) -> None:
    check_two_hosts("paddle", tmp_path)
