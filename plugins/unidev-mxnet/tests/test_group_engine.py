"""MXNet's ``dist_sync`` kvstore behind unidev's groups, in real processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import engine_samples
from engine_checks import check_engine, check_run, check_two_hosts, not_carried

import unidev

if TYPE_CHECKING:
    from pathlib import Path


def test_workers_get_the_exact_result_on_loopback_alone(tmp_path: Path) -> None:
    found = check_engine("mxnet", 2, tmp_path, UNIDEV_SIMULATE="0")
    assert {"sum of int64", "gather of bool", "max of float16"} <= found.exchanged
    assert found.listens == [{"127.0.0.1"}] * 4
    assert found.helpers == [None, None]  # the launcher ends them


def test_more_than_two_workers_exchange_through_the_host() -> None:
    for found in unidev.run(engine_samples.exchanged_by, workers=3, backend="mxnet"):
        assert found == {
            "engines": ["HostEngine"],
            "sum": [[6.0, 6.0], [3, 6], []],
            "half": [600.0, 600.0],
            "large": [6.0],
            "broadcast": [1.0, 1.0],
            "gathered": [[False], [True], [False]],
        }


def test_simulated_devices_travel_as_they_are(tmp_path: Path) -> None:
    found = check_engine("mxnet", 2, tmp_path, "gpu:1", UNIDEV_SIMULATE="2")
    assert "sum of float32" in found.exchanged


def test_what_does_not_travel_by_it() -> None:
    assert not_carried("mxnet") == {
        "sum": {"bool"},
        "min": {"bool"},
        "max": {"bool"},
        "broadcast": set(),
        "gather": set(),
    }


def test_a_run_exchanges_by_it() -> None:
    check_run("mxnet", "MxnetEngine")


def test_between_hosts_whose_names_resolve_to_loopback(tmp_path: Path) -> None:
    check_two_hosts("mxnet", tmp_path)


def test_forked_workers_draw_different_numbers() -> None:
    found = unidev.run(engine_samples.drawn_by_mxnet, workers=3, backend="mxnet", start="fork")
    assert len({*found}) == 3
