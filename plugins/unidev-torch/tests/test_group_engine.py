"""torch.distributed behind unidev's groups, in real processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from engine_checks import after_a_death, check_engine, check_run, check_two_hosts, not_carried

import unidev
from unidev.contract import Rendezvous
from unidev_torch.group import TorchSetting

if TYPE_CHECKING:
    from pathlib import Path


def test_three_workers_get_the_exact_result_on_loopback_alone(tmp_path: Path) -> None:
    found = check_engine("torch", 3, tmp_path, UNIDEV_SIMULATE="0")
    exchanged = {"sum of complex64", "sum of uint64", "gather of bfloat16", "max of float16"}
    assert exchanged <= found.exchanged
    assert found.listens == [{"127.0.0.1"}] * 3


def test_between_machines_the_store_is_that_of_rank_0(tmp_path: Path) -> None:
    found = check_engine("torch", 2, tmp_path, has_folder=False, UNIDEV_SIMULATE="0")
    assert all(found.listens)  # where depends on the name of this host


def test_where_the_store_listens_is_known_before_it_does(tmp_path: Path) -> None:
    here = Rendezvous(("127.0.0.1",) * 2, (4000, 4001), (), tmp_path, 1.0)
    assert TorchSetting().prepare(here).listens is None
    between = Rendezvous(("10.0.0.1", "10.0.0.2"), (4000, 4001), (), None, 1.0)
    listens = TorchSetting().prepare(between).listens
    assert listens is not None
    assert "all interfaces of 10.0.0.1, at port 4000" in listens


@pytest.mark.parametrize("name", [{}, {"UNIDEV_SIMULATE_AS": "cuda"}])
def test_simulated_devices_exchange_by_a_group_of_their_own(
    name: dict[str, str], tmp_path: Path
) -> None:
    found = check_engine("torch", 2, tmp_path, "gpu:{rank}", UNIDEV_SIMULATE="2", **name)
    assert "sum of float32" in found.exchanged


def test_what_does_not_travel_by_it() -> None:
    unordered = {"bool", "complex64", "complex128", "uint64"}
    assert not_carried("torch") == {
        "sum": {"bool"},
        "min": unordered,
        "max": unordered,
        "broadcast": set(),
        "gather": set(),
    }


def test_the_death_of_a_worker_is_an_error_of_the_framework(tmp_path: Path) -> None:
    answer = after_a_death("torch", tmp_path)
    assert answer is not None
    assert answer.startswith("RuntimeError: "), answer


def test_a_run_exchanges_by_it() -> None:
    check_run("torch", "TorchEngine")


def test_between_hosts_whose_names_resolve_to_loopback(tmp_path: Path) -> None:
    check_two_hosts("torch", tmp_path)


def _reduced_after_an_optimizer() -> list[float]:
    torch.optim.Adam([torch.zeros(1, requires_grad=True)])  # imports torch._dynamo
    group = unidev.group()
    total: torch.Tensor = group.all_reduce(torch.ones(2, device=group.device.native))
    return total.tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("gpus", [0, 1])
def test_an_optimizer_made_first_brings_no_warning(
    gpus: int, capfd: pytest.CaptureFixture[str]
) -> None:
    found = unidev.run(_reduced_after_an_optimizer, backend="torch", gpus_per_worker=gpus)
    assert found == [[2.0, 2.0]] * 2
    assert "No backend of type" not in capfd.readouterr().err
