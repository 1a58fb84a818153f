"""Memory in four layouts, as the driver reports it: a card of its own, two of the host's, MIG."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from on_stand_in import torch

import unidev
from unidev.cli.gpus import gpus

if TYPE_CHECKING:
    from runtime import Runtime

MIB = 1 << 20
CARD, CONTEXT = 1024 * MIB, 128 * MIB
OF_THE_HOST = ("carve-out", "no answer")
INSTANCES = [f"MIG-000000a0-57a4-d141-c0da-00000000000{number}" for number in (1, 2)]
PARENT = "GPU 0, Stand-in GPU"


def on(monkeypatch: pytest.MonkeyPatch, layout: str) -> None:
    """One card of that layout; with MIG its second instance."""
    monkeypatch.setenv("STAND_IN_LAYOUT", layout)
    monkeypatch.setenv("STAND_IN_GPUS", "1")
    if layout == "MIG":
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", INSTANCES[1])


@pytest.mark.parametrize("layout", ["own", "MIG"])
def test_memory_of_its_own_is_the_drivers(cuda: Runtime, monkeypatch, layout):
    on(monkeypatch, layout)
    x = unidev.zeros(MIB, device="gpu")
    found = unidev.memory("gpu")
    held = 20 * MIB + CONTEXT  # torch's allocator takes 20 MiB for what is larger than 1
    assert found == (x.nbytes, CARD - held, CARD)
    assert not found.is_shared
    assert found.driver is not None
    assert found.driver[:3] == (held, CARD - held, CARD)
    assert [(each.pid, each.used_bytes) for each in found.driver.holders] == [(os.getpid(), held)]
    assert found.driver.parent == (PARENT if layout == "MIG" else None)


@pytest.mark.parametrize("layout", OF_THE_HOST)
def test_memory_without_any_of_its_own_is_the_hosts(cuda: Runtime, monkeypatch, layout):
    on(monkeypatch, layout)
    x = unidev.zeros(MIB, device="gpu")
    found = unidev.memory("gpu")
    assert torch.cuda.mem_get_info()[1] == CARD  # CUDA's count, which is not mixed with the host's
    assert (found.used_bytes, found.total_bytes) == (x.nbytes, psutil.virtual_memory().total)
    assert 0 < found.free_bytes < found.total_bytes
    assert (found.is_shared, found.driver) == (True, None)


@pytest.mark.parametrize("layout", OF_THE_HOST)
def test_torch_too_says_that_it_is_the_hosts(cuda: Runtime, monkeypatch, layout):
    on(monkeypatch, layout)
    torch.cuda.init()
    device = unidev.gpu()
    assert unidev.active_backend().shares_host_memory(device)
    assert torch.cuda.get_device_properties(0).is_integrated


def shown_by_info() -> list[tuple[Any, ...]]:
    names = ("name", "parent", "used_bytes", "total_bytes", "shares_host_memory")
    return [tuple(each[name] for name in names) for each in gpus()]


def test_info_shows_a_card_and_its_instances(cuda: Runtime, monkeypatch):
    on(monkeypatch, "MIG")
    kept = unidev.zeros(5 * MIB, device="gpu")
    held = kept.nbytes + CONTEXT
    assert shown_by_info() == [
        ("Stand-in GPU", None, held, 2 * CARD, False),
        ("Stand-in GPU MIG", PARENT, 0, CARD, False),
        ("Stand-in GPU MIG", PARENT, held, CARD, False),
    ]


def test_info_shows_a_card(cuda: Runtime, monkeypatch):
    on(monkeypatch, "own")
    assert shown_by_info() == [("Stand-in GPU", None, 0, CARD, False)]
    assert cuda.counts()["initialisations"] == 0


@pytest.mark.parametrize("layout", OF_THE_HOST)
def test_info_shows_the_hosts_memory(cuda: Runtime, monkeypatch, layout):
    on(monkeypatch, layout)
    ((name, parent, used, total, is_shared),) = shown_by_info()
    assert (name, parent, is_shared) == ("Stand-in GPU", None, True)
    assert 0 < used < total == psutil.virtual_memory().total
    assert gpus()[0]["memory"].endswith(" free, shared with the host")


@pytest.mark.parametrize("layout", ["own", *OF_THE_HOST, "MIG"])
def test_the_doctor_finds_no_fault_in_any_of_them(monkeypatch, layout):
    on(monkeypatch, layout)
    command = [sys.executable, "-m", "unidev", "doctor", "--backend", "torch", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    # A carve-out is nearly full, but that is no fault: memory that is free is the host's.
    assert (document["healthy"], document["findings"]) == (True, [])
    (gpu,) = next(each for each in document["machine"]["drivers"] if each["gpus"])["gpus"]
    assert gpu["shares_host_memory"] is (layout in OF_THE_HOST)
    parts = [(each["uuid"], each["total_bytes"], each["parent"]) for each in gpu["parts"]]
    assert parts == ([(each, CARD, PARENT) for each in INSTANCES] if layout == "MIG" else [])


@pytest.mark.parametrize("layout", ["own", *OF_THE_HOST, "MIG"])
def test_a_gpu_is_chosen_by_its_free_memory_without_a_context(cuda: Runtime, monkeypatch, layout):
    on(monkeypatch, layout)
    free = psutil.virtual_memory().total if layout in OF_THE_HOST else CARD
    assert unidev.try_gpu(free=free + 1) is unidev.cpu()
    assert unidev.try_gpu(free="64MiB") is unidev.gpu(free="64MiB") is unidev.gpu()
    assert unidev.try_gpu(most_free=True) is unidev.gpu()
    shared = r" \(shared with the host\)" if layout in OF_THE_HOST else ""
    words = f"GiB free{shared}. That is more than there is in all"
    with pytest.raises(unidev.DeviceNotFoundError, match=words):
        unidev.gpu(free="500,000GiB")
    assert cuda.counts()["contexts"] == 0


def test_of_two_cards_it_is_the_one_that_this_process_has_left_free(cuda: Runtime):
    kept = unidev.zeros(128 * MIB, device="gpu:0")
    assert unidev.try_gpu(free="500MiB") is unidev.gpu(1)
    assert unidev.try_gpu(most_free=True) is unidev.gpu(1)
    assert unidev.try_gpu(0, free="500MiB") is unidev.cpu()
    assert unidev.try_all_gpus(free="384MiB") == [unidev.gpu(0), unidev.gpu(1)]
    with pytest.raises(unidev.DeviceNotFoundError) as caught:
        unidev.gpu(free="2GiB")
    assert (
        "gpu:0 has 384 MiB of 1 GiB free, held by process "
        f"{os.getpid()} (this process): 640 MiB; gpu:1 has 1 GiB of 1 GiB free."
    ) in str(caught.value)
    assert cuda.contexts() == [True, False]
    del kept


def test_an_instance_that_is_not_named_is_not_guessed(cuda: Runtime, monkeypatch):
    on(monkeypatch, "MIG")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert unidev.memory("gpu").driver is None
    with pytest.raises(unidev.UnsupportedOperation, match="CUDA_VISIBLE_DEVICES=MIG-"):
        unidev.try_gpu(free="64MiB")


def test_of_two_divided_cards_this_process_has_one_instance(cuda: Runtime, monkeypatch):
    monkeypatch.setenv("STAND_IN_LAYOUT", "MIG")
    assert torch.cuda.device_count() == 2  # by NVML
    assert (unidev.num_gpus(), unidev.try_gpu(1)) == (1, unidev.cpu())
    assert cuda.counts()["initialisations"] == 0
    unidev.zeros(1, device="gpu")
    assert unidev.num_gpus() == 1 == torch._C._cuda_getDeviceCount()
