"""Memory and names of accelerators that no test machine has, by made-up answers of Paddle."""

from __future__ import annotations

from types import SimpleNamespace

import paddle
import pytest
from paddle.base import core

import unidev
from unidev.contract import Memory
from unidev_paddle import memory
from unidev_paddle.devices import Accelerator

GiB = 2**30
GPU = Accelerator("gpu", 1)
XPU = Accelerator("xpu", 2)
NPU = Accelerator("npu", 0)


@pytest.fixture
def backend(monkeypatch):
    """Four accelerators: two of CUDA, one of XPU, and one of a plug-in."""
    backend = unidev.active_backend()
    monkeypatch.setattr(backend, "simulated_count", 0)
    monkeypatch.setattr(backend, "_accelerators", [Accelerator("gpu", 0), GPU, XPU, NPU])
    return backend


def test_what_other_processes_hold_of_a_gpu_is_not_free(monkeypatch):
    asked = []

    def mem_get_info(device):
        asked.append(device)
        return 9 * GiB, 80 * GiB

    monkeypatch.setattr(paddle.cuda, "mem_get_info", mem_get_info)
    monkeypatch.setattr(paddle.device.cuda, "memory_allocated", {1: GiB}.get)
    assert memory.of_real(GPU) == Memory(GiB, 9 * GiB, 80 * GiB)
    assert asked == [1]


def test_a_paddle_that_does_not_report_free_memory_says_so(monkeypatch):
    monkeypatch.delattr(paddle.cuda, "mem_get_info")
    with pytest.raises(unidev.UnsupportedOperation, match=r"Paddle 3\.3"):
        memory.of_real(GPU)


def test_an_xpu_has_its_own_count(monkeypatch):
    for name, answers in (("memory_allocated", 1), ("memory_used", 7), ("memory_total", 32)):
        monkeypatch.setattr(paddle.device.xpu, name, {2: answers * GiB}.get)
    assert memory.of_real(XPU) == Memory(GiB, 25 * GiB, 32 * GiB)


def test_of_other_accelerators_the_size_is_not_known():
    with pytest.raises(unidev.UnsupportedOperation, match="npu:0, but not its size"):
        memory.of_real(NPU)


def test_names_are_the_hardwares_where_paddle_has_them(backend, monkeypatch):
    monkeypatch.setattr(paddle.device.cuda, "get_device_name", {1: "NVIDIA H200"}.get)
    monkeypatch.setattr(
        core, "get_xpu_device_version", {2: SimpleNamespace(name="XPU3")}.get, raising=False
    )
    names = [backend.hardware_name("gpu", index) for index in (1, 2, 3)]
    assert names == ["NVIDIA H200", "Kunlun XPU3", "npu:0"]


def test_cudas_numbers_are_those_of_its_own_gpus(backend):
    assert [backend.hardware_index("gpu", index) for index in range(4)] == [0, 1, None, None]
