"""Which devices there are, and waiting for them: CUDA is left as it was."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from on_stand_in import torch

import unidev

if TYPE_CHECKING:
    from runtime import Runtime


def test_looking_creates_no_context_and_spoils_no_fork(cuda: Runtime):
    assert unidev.num_gpus() == 2
    assert [str(each) for each in unidev.list_devices()] == ["cpu:0", "gpu:0", "gpu:1"]
    assert unidev.gpu(1).native == torch.device("cuda:1")
    assert unidev.try_gpu() is unidev.gpu()
    assert unidev.try_all_gpus() == [unidev.gpu(0), unidev.gpu(1)]
    assert unidev.device_of(torch.ones(1)) is unidev.cpu()
    assert unidev.as_device("cuda:1") is unidev.gpu(1)
    unidev.synchronize()
    counts = cuda.counts()
    assert (counts["initialisations"], counts["contexts"]) == (0, 0)
    child = os.fork()
    if child == 0:
        x = unidev.copy_to(torch.arange(3.0), "gpu:1")
        os._exit(0 if x.tolist() == [0, 1, 2] else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_the_name_of_a_card_needs_no_context_either(cuda: Runtime):
    assert unidev.gpu(1).name == "Stand-in GPU"
    assert cuda.counts()["contexts"] == 0


def test_synchronize_passes_over_gpus_that_this_process_does_not_use(cuda: Runtime):
    x = torch.arange(3.0).to("cuda:1")
    pinned = torch.zeros(3, pin_memory=True)
    before = cuda.contexts()
    pinned.copy_(x, non_blocking=True)
    assert pinned.tolist() == [0, 0, 0]
    unidev.synchronize()
    assert pinned.tolist() == [0, 1, 2]
    assert cuda.contexts() == before
    unidev.synchronize("gpu:0")
    assert cuda.contexts() == before


def test_try_gpu_falls_back_where_the_driver_is_too_old_for_this_torch(cuda: Runtime, monkeypatch):
    monkeypatch.setenv("STAND_IN_DRIVER_CUDA", "12.4")
    assert torch.cuda.device_count() == 2  # by NVML
    assert unidev.try_gpu() is unidev.cpu()
    assert unidev.try_all_gpus() == [unidev.cpu()]
    assert unidev.num_gpus() == 0
    assert cuda.counts()["initialisations"] == 0


def test_gpu_says_that_the_driver_is_too_old(cuda: Runtime, monkeypatch):
    monkeypatch.setenv("STAND_IN_DRIVER_CUDA", "12.4")
    with pytest.raises(unidev.DeviceNotFoundError, match="NVIDIA's driver is too old for torch"):
        unidev.gpu()
    assert cuda.counts()["initialisations"] == 0


@pytest.mark.parametrize("version", ["13.0", "13.1", "14.0"])
def test_a_driver_as_new_as_torch_is_used(monkeypatch, version):
    monkeypatch.setenv("STAND_IN_DRIVER_CUDA", version)
    assert unidev.try_gpu(1) is unidev.gpu(1)
    assert unidev.copy_to(torch.ones(1), "gpu").tolist() == [1]


def test_a_lost_card_is_an_error_and_the_others_work(cuda: Runtime):
    cuda.lose(1)
    assert unidev.num_gpus() == 2
    with pytest.raises(unidev.FrameworkError, match="unknown error"):
        unidev.copy_to(torch.ones(1), "gpu:1")
    assert unidev.copy_to(torch.ones(1), "gpu:0").tolist() == [1]
