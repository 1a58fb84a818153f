"""Counting memory on CUDA, also as its first use."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from on_stand_in import torch

import unidev

if TYPE_CHECKING:
    from runtime import Runtime

MIB = 1 << 20


def test_a_lack_of_memory_says_what_was_asked_what_is_free_and_who_holds_it(cuda: Runtime):
    kept = unidev.zeros(64 * MIB, device="gpu:1")
    with pytest.raises(unidev.OutOfDeviceMemoryError) as caught:
        unidev.zeros(256 * MIB, device="gpu:1")
    message = str(caught.value)
    assert "Requested: 1 GiB. Free on gpu:1: 640 MiB of 1 GiB." in message
    assert f"Held by process {os.getpid()} (this process): 384 MiB." in message
    assert unidev.memory("gpu:1").used_bytes == kept.nbytes


class Elementwise(torch.nn.Module):
    """What needs no library: the stand-in has neither cuBLAS nor cuDNN."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.weight, self.bias = (torch.nn.Parameter(torch.ones(columns)) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * self.weight + self.bias).sigmoid()


def step(net: Elementwise, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> None:
    optimizer.zero_grad()
    net(x).sum().backward()
    optimizer.step()


@pytest.mark.parametrize(
    "rows", [7, 100, 1000, pytest.param(3001, id="a whole segment"),
             pytest.param(2700, id="a split segment")],
)  # fmt: skip
@pytest.mark.parametrize("foreach", [True, False])
def test_an_estimate_is_what_torchs_allocator_for_cuda_counts(
    cuda: Runtime, rows: int, foreach: bool
):
    net = Elementwise(1000).to("cuda")
    optimizer = torch.optim.Adam(net.parameters(), foreach=foreach)
    x = torch.zeros(rows, 1000).to("cuda")
    estimate = unidev.estimate_memory(step, net, optimizer, x)
    step(net, optimizer, x)
    torch.cuda.reset_peak_memory_stats()
    step(net, optimizer, x)
    assert estimate.peak_bytes == torch.cuda.max_memory_allocated()
