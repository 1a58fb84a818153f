"""``copy_to`` and ``as_in_device`` on CUDA's streams: values, order, and what is moved."""

from __future__ import annotations

from threading import Thread
from typing import TYPE_CHECKING

import pytest
from on_stand_in import torch

import unidev

if TYPE_CHECKING:
    from runtime import Counts, Runtime


def host(start: float = 0.0) -> torch.Tensor:
    return torch.arange(start, start + 6, dtype=torch.float32).reshape(2, 3)


def moved(cost: Counts) -> dict[str, int]:
    """How often bytes crossed, and how many."""
    names = ("host to device", "device to host", "device to device", "between devices")
    found = {name: (cost[name], cost[f"{name} bytes"]) for name in names}
    return {name: numbers for name, numbers in found.items() if numbers != (0, 0)}


def test_tensors_of_every_kind_are_copied_between_gpus():
    x = host().to("cuda:0")
    sparse = torch.sparse_coo_tensor([[0], [1]], [2.0], (2, 2), check_invariants=False)
    kinds = {
        "view": x.T, "empty": x[:0], "parameter": torch.nn.Parameter(x.detach()),
        "leaf": x.clone().requires_grad_(), "sparse": sparse.to("cuda:0"),
    }  # fmt: skip
    for name, each in kinds.items():
        for device in ("gpu:0", "gpu:1"):
            y = unidev.copy_to(each, device, non_blocking=True)
            assert torch.equal(y.cpu().to_dense(), each.cpu().to_dense()), (name, device)
    y = torch.vmap(lambda row: unidev.copy_to(row, "gpu:1"))(x)
    assert (y.device.index, y.tolist()) == (1, host().tolist())
    with torch.inference_mode():
        assert unidev.copy_to(x.clone(), "gpu:1").is_inference()


def test_memory_of_a_dropped_source_is_used_again_in_its_own_stream(cuda: Runtime):
    x = host().to("cuda:0")
    address = x.data_ptr()
    _ = unidev.copy_to(x, "gpu:1", non_blocking=True)
    del x
    assert torch.empty(2, 3, device="cuda:0").data_ptr() == address


def test_a_copy_waits_for_what_was_queued_before(cuda: Runtime):
    x, news = host().to("cuda:0"), host(40).to("cuda:0")
    x.copy_(news)
    there = unidev.copy_to(x, "gpu:1")
    here = unidev.copy_to(x, "gpu:0", non_blocking=True)
    x.copy_(host().to("cuda:0"))
    assert cuda.queued(0) > 0
    assert unidev.to_numpy(there).tolist() == host(40).tolist()
    assert unidev.to_numpy(here).tolist() == host(40).tolist()
    assert unidev.to_numpy(x).tolist() == host().tolist()


def test_threads_with_other_current_devices_copy_where_they_are_told(cuda: Runtime):
    x = host()
    found: list[tuple[int, object, object]] = []

    def work(current: int, target: int) -> None:
        torch.cuda.set_device(current)
        with torch.cuda.stream(torch.cuda.Stream(current)):
            y = unidev.copy_to(x, unidev.gpu(target))
            z = unidev.copy_to(y, unidev.gpu(1 - target), non_blocking=True)
            back = unidev.copy_to(z, "cpu", non_blocking=True)
        assert torch.cuda.current_device() == current
        found.append((y.device.index, z.device.index, back.tolist()))

    threads = [Thread(target=work, args=(i % 2, i // 2 % 2)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted((i // 2 % 2, 1 - i // 2 % 2, host().tolist()) for i in range(8))


def test_a_nested_batch_makes_one_transfer_for_each_tensor(cuda: Runtime):
    shared = host()
    batch = {"x": shared, "again": shared, "more": (host(1), [torch.arange(5)]), "name": "a"}
    with cuda.counting() as cost:
        there = unidev.as_in_device(batch, "gpu")
    assert moved(cost) == {"host to device": (3, 24 + 24 + 40)}
    assert cost["device synchronisations"] == 0
    assert cost["contexts"] == 1
    with cuda.counting() as cost:
        assert unidev.as_in_device(there, "gpu") is there
        assert unidev.as_in_device(there["x"], "gpu:0") is there["x"]
    assert str(cost) == "{}"
    with cuda.counting() as cost:
        unidev.as_in_device(there, "gpu:1")
    assert moved(cost) == {"between devices": (3, 24 + 24 + 40)}


def test_copies_within_a_device_and_to_numpy_cross_the_bus_once_or_never(cuda: Runtime):
    x = host().to("cuda")
    with cuda.counting() as cost:
        unidev.copy_to(x, "gpu")
    assert moved(cost) == {"device to device": (1, 24)}
    with cuda.counting() as cost:
        unidev.to_numpy(x)
    assert moved(cost) == {"device to host": (1, 24)}
    with cuda.counting() as cost:
        unidev.array([1.0, 2.0], device="gpu")
    assert moved(cost) == {"host to device": (1, 8)}
    with cuda.counting() as cost:
        unidev.zeros((2, 3), device="gpu")
        unidev.full((2, 3), 5.0, device="gpu")
    assert moved(cost) == {}


def test_a_copy_that_does_not_fit_says_so_and_changes_nothing(cuda: Runtime):
    x = torch.ones(16 << 20).to("cuda:0")
    cuda.fail("allocation", times=2)
    with pytest.raises(unidev.OutOfDeviceMemoryError):
        unidev.copy_to(x, "gpu:1")
    cuda.reset()
    assert unidev.copy_to(x, "gpu:1").device.index == 1


def test_a_failed_copy_is_an_error_of_the_framework(cuda: Runtime):
    x = host().to("cuda")
    cuda.fail("copy", error=999)
    with pytest.raises(unidev.FrameworkError, match="unknown error"):
        unidev.copy_to(x, "cpu")
    assert unidev.copy_to(x, "cpu").tolist() == host().tolist()
