"""TensorFlow's collectives behind unidev's groups, in real processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine_checks import check_engine, check_run, check_two_hosts, not_carried

if TYPE_CHECKING:
    from pathlib import Path

    from fresh_programs import Python


def test_three_workers_get_the_exact_result(tmp_path: Path) -> None:
    found = check_engine("tensorflow", 3, tmp_path, UNIDEV_SIMULATE="0")
    exchanged = {"sum of complex64", "sum of uint64", "gather of bfloat16", "max of float16"}
    assert exchanged <= found.exchanged
    assert found.listens == [{"::"}] * 3  # as Arrangement.listens says


def test_simulated_devices_travel_through_the_host(tmp_path: Path) -> None:
    found = check_engine("tensorflow", 2, tmp_path, "gpu:1", UNIDEV_SIMULATE="2")
    assert "sum of float32" in found.exchanged


def test_what_does_not_travel_by_it() -> None:
    unordered = {"bool", "complex64", "complex128", "uint64"}
    assert not_carried("tensorflow") == {
        "sum": {"bool"},
        "min": unordered,
        "max": unordered,
        "broadcast": set(),
        "gather": set(),
    }


def test_it_cannot_join_once_the_runtime_has_started(python: Python) -> None:
    done = python("""
import unidev
x = unidev.ones(3)
rendezvous = unidev.contract.Rendezvous(("127.0.0.1",) * 2, (1, 2), (), None, 5.0)
try:
    unidev.active_backend().group_engine.join(0, rendezvous, unidev.cpu())
except unidev.UnsupportedOperation as error:
    assert "before the first tensor" in str(error), error
    assert (x + 1).numpy().tolist() == [2, 2, 2]
    print("refused")
""")
    assert done.stdout == "refused\n", done.stderr


def test_a_run_exchanges_by_it() -> None:
    check_run("tensorflow", "TensorFlowEngine")


def test_between_hosts_whose_names_resolve_to_loopback(tmp_path: Path) -> None:
    check_two_hosts("tensorflow", tmp_path)
