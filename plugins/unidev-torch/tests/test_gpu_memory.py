"""Torch's counters of an accelerator's memory, here of one that is made up; pinned memory."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

import unidev
from unidev.contract import Unsupported
from unidev.errors import UnsupportedOperation
from unidev_torch.memory import TorchPeaks, pinning_of


class Counters:
    """What ``torch.cuda`` has, of two devices."""

    def __init__(self) -> None:
        self.calls = []

    def memory_allocated(self, index):
        return 100 + index

    def max_memory_allocated(self, index):
        return 500 + index

    def reset_peak_memory_stats(self, index):
        self.calls.append(index)


def test_the_counters_are_those_of_the_device_that_is_meant(monkeypatch):
    counters = Counters()
    monkeypatch.setattr(torch, "get_device_module", lambda native: counters)
    peaks = TorchPeaks(unidev.active_backend())
    device = unidev.gpu(1)
    assert (peaks.used_bytes(device), peaks.peak_bytes(device)) == (101, 501)
    peaks.restart(device)
    assert counters.calls == [1]


def test_a_device_that_torch_counts_nothing_of_is_refused(monkeypatch):
    peaks = TorchPeaks(unidev.active_backend())
    with pytest.raises(UnsupportedOperation, match="torch does not count the CPU's memory"):
        peaks.used_bytes(unidev.cpu())
    monkeypatch.setattr(torch, "get_device_module", lambda native: object())
    with pytest.raises(UnsupportedOperation, match="does not count it"):
        peaks.peak_bytes(unidev.gpu(0))


@pytest.mark.parametrize(
    ("properties", "is_shared"),
    [
        ({"is_integrated": 1}, True),
        ({"is_integrated": 0}, False),
        ({"is_integrated_gpu": True}, True),  # XPU's word
        ({}, False),  # before PyTorch reports it
    ],
)
def test_torch_says_whether_a_gpu_shares_the_hosts_memory(monkeypatch, properties, is_shared):
    backend, device = unidev.active_backend(), unidev.gpu(1)
    initialised = SimpleNamespace(
        is_initialized=lambda: True,
        get_device_properties=lambda index: SimpleNamespace(**properties),
    )
    monkeypatch.setattr(torch, "get_device_module", lambda native: initialised)
    assert backend.shares_host_memory(device) is is_shared


@pytest.mark.parametrize(
    "module",
    [SimpleNamespace(is_initialized=lambda: False), SimpleNamespace()],
    ids=["not yet", "mps"],
)
def test_torch_is_not_initialised_to_say_it(monkeypatch, module):
    backend, device = unidev.active_backend(), unidev.gpu(1)
    monkeypatch.setattr(torch, "get_device_module", lambda native: module)
    assert backend.shares_host_memory(device) is False


class Boxes(torch.Tensor):
    """Keeps its class in a few functions, as torchvision's tensors do."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            found = function(*args, **kwargs or {})
        if function in (torch.Tensor.clone, torch.Tensor.to, torch.Tensor.pin_memory):
            return found.as_subclass(cls)
        return found.as_subclass(torch.Tensor) if isinstance(found, cls) else found


@pytest.mark.parametrize(
    "verb", [unidev.pin, unidev.array, lambda x: unidev.copy_to({"x": x}, "gpu:1")["x"]]
)
def test_a_tensor_keeps_its_class(verb):
    made = verb(boxes := torch.ones(2, 4).as_subclass(Boxes))
    assert type(made) is Boxes
    assert not unidev.shares_memory(made, boxes)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_tensors_without_one_shape_or_block_are_pinned_as_torch_does():
    parts = [torch.arange(3.0), torch.arange(5.0)]
    for layout in (torch.strided, torch.jagged):
        pinned = unidev.pin(torch.nested.nested_tensor(parts, layout=layout))
        assert pinned.is_pinned()
        assert [each.tolist() for each in pinned.unbind()] == [each.tolist() for each in parts]
    assert unidev.pin(torch.eye(3).to_sparse()).is_pinned()


def test_without_an_accelerator_nothing_is_pinned(monkeypatch):
    backend = unidev.active_backend()
    monkeypatch.setattr(backend, "device_count", lambda kind: kind == "cpu")
    assert isinstance(pinning_of(backend), Unsupported)


def test_what_the_allocator_keeps_is_told_apart_from_what_tensors_use(monkeypatch):
    class Cuda(Counters):
        def mem_get_info(self, index):
            return 3000, 9000

        def memory_reserved(self, index):
            return 700 + index

    monkeypatch.setattr(torch, "get_device_module", lambda native: Cuda())
    memory = unidev.active_backend().memory(unidev.gpu(1))
    assert memory == (101, 3000, 9000)
    assert memory.reserved_bytes == 701
    monkeypatch.delattr(Cuda, "memory_reserved")
    assert unidev.active_backend().memory(unidev.gpu(1)).reserved_bytes is None
