"""``prefetch`` on CUDA: pinned copies in a stream of their own; nothing waits for the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from on_stand_in import torch

import unidev

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runtime import Runtime

COUNT = 4


def overwriting(kind: str) -> Iterator[Any]:
    """One host buffer, overwritten for each batch."""
    buffer = torch.zeros(3, pin_memory=kind == "pinned")
    for number in range(COUNT):
        buffer.fill_(number)
        yield {"x": buffer.numpy() if kind == "array" else buffer, "n": number}


@pytest.mark.parametrize("kind", ["tensor", "array", "pinned"])
def test_one_pinned_copy_for_each_tensor_and_no_waiting_for_the_device(cuda: Runtime, kind: str):
    torch.cuda.init()
    torch.empty(1, pin_memory=True)
    list(unidev.prefetch(overwriting(kind), "gpu:0"))
    with cuda.counting() as cost:
        found = list(unidev.prefetch(overwriting(kind), "gpu:0"))
    assert cost["host to device"] == COUNT
    assert cost["device synchronisations"] == cost["stream synchronisations"] == 0
    assert cost["pinned allocations"] <= COUNT  # torch keeps those of before
    assert [each["n"] for each in found] == list(range(COUNT))
    assert [each["x"].tolist() for each in found] == [[number] * 3 for number in range(COUNT)]


def test_inside_a_scope_of_the_gpu_the_pinned_copy_is_on_the_host(cuda: Runtime):
    batches = [torch.full((3,), float(number)) for number in range(COUNT)]
    with unidev.gpu(1):
        found = list(unidev.prefetch(batches, "gpu:0"))
    assert [x.tolist() for x in found] == [x.tolist() for x in batches]


def test_a_batch_is_used_in_the_order_of_the_users_stream(cuda: Runtime):
    side = torch.cuda.Stream()
    batches = iter(unidev.prefetch(overwriting("tensor"), "gpu:0", depth=COUNT))
    with torch.cuda.stream(side):
        copies = [each["x"].clone() for each in batches]
    side.synchronize()
    assert [each.tolist() for each in copies] == [[number] * 3 for number in range(COUNT)]


def test_tensors_that_are_there_are_copied_after_the_work_on_them(cuda: Runtime):
    there = torch.zeros(3, device="cuda")

    def batches() -> Iterator[Any]:
        for number in range(COUNT):
            there.copy_(torch.full((3,), float(number)))
            yield there

    found = [each.tolist() for each in unidev.prefetch(batches(), "gpu:0")]
    assert found == [[number] * 3 for number in range(COUNT)]


def test_a_batch_that_is_dropped_keeps_its_memory_until_it_was_used(cuda: Runtime):
    used = []
    for batch in unidev.prefetch(overwriting("tensor"), "gpu:0"):
        used.append(torch.empty(3).pin_memory().copy_(batch["x"], non_blocking=True))
        del batch
        torch.full((3,), -1.0, device="cuda")
    torch.cuda.synchronize()
    assert [each.tolist() for each in used] == [[number] * 3 for number in range(COUNT)]


def test_what_no_stream_copies_goes_the_ordinary_way(cuda: Runtime):
    sparse, grad = torch.eye(2).to_sparse(), torch.ones(2, requires_grad=True)
    ((moved, differentiable, array),) = unidev.prefetch([(sparse, grad, np.ones(2))], "gpu:0")
    assert moved.is_sparse
    assert differentiable.requires_grad
    assert {each.device.type for each in (moved, differentiable, array)} == {"cuda"}
