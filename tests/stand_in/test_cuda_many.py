"""Two GPUs, several threads and streams: what is moved, and that nothing is read too early."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from on_stand_in import torch

import unidev

if TYPE_CHECKING:
    from runtime import Runtime


def both() -> list[unidev.Device]:
    return [unidev.gpu(0), unidev.gpu(1)]


def test_a_batch_is_split_by_one_transfer_for_each_part(cuda: Runtime):
    with cuda.counting() as cost:
        parts = unidev.split_batch((torch.arange(12.0).reshape(4, 3), torch.arange(4)), both())
    assert [part[0].tolist() for part in parts] == [
        [[0, 1, 2], [3, 4, 5]],
        [[6, 7, 8], [9, 10, 11]],
    ]
    assert (cost["host to device"], cost["host to device bytes"]) == (4, 48 + 32)
    assert cost["device to host"] == cost["between devices"] == 0


def test_a_net_is_replicated_by_one_transfer_for_each_tensor_and_gpu(cuda: Runtime):
    net = torch.nn.Linear(3, 4)
    with cuda.counting() as cost:
        copies = unidev.replicate(net, both())
    assert [each.weight.device.index for each in copies] == [0, 1]
    assert all(torch.equal(each.weight.cpu(), net.weight) for each in copies)
    assert (cost["host to device"], cost["host to device bytes"]) == (4, 2 * 16 * 4)


def test_gradients_are_reduced_in_one_pack_each_way(cuda: Runtime):
    gradients = [
        [unidev.copy_to(torch.ones(shape), device) for shape in (5, (7, 3), 2)] for device in both()
    ]
    with cuda.counting() as cost:
        unidev.all_reduce(gradients)
    assert (cost["between devices"], cost["between devices bytes"]) == (2, 2 * 28 * 4)
    assert cost["host to device"] == cost["device to host"] == 0
    assert cost["device synchronisations"] == 0


@pytest.mark.parametrize("device", ["gpu:0", "gpu:1"])
def test_batches_arrive_in_order_and_make_a_context_on_their_gpu_alone(cuda: Runtime, device: str):
    batches = [{"x": torch.full((2, 3), float(i)), "y": torch.tensor([i])} for i in range(8)]
    found = list(unidev.prefetch(batches, device))
    assert [each["y"].tolist() for each in found] == [[i] for i in range(8)]
    assert [each["x"].tolist() for each in found] == [each["x"].tolist() for each in batches]
    assert cuda.contexts() == [device == "gpu:0", device == "gpu:1"]
    assert cuda.counts()["host to device"] == 16
