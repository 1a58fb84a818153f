"""``pin`` on CUDA, and what is copied from pinned memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from on_stand_in import torch

import unidev

if TYPE_CHECKING:
    from runtime import Runtime


def host() -> torch.Tensor:
    return torch.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    "x",
    [host().T, host()[:, 1], torch.ones(1).expand(4), torch.tensor(3.0), torch.empty(0, 3),
     torch.ones(3, dtype=torch.bfloat16), torch.ones(2, dtype=torch.complex64).conj()],
    ids=["transposed", "column", "expanded", "scalar", "empty", "bfloat16", "conjugate"],
)  # fmt: skip
def test_any_dense_tensor_can_be_pinned(x):
    pinned = unidev.pin(x)
    assert torch.equal(pinned, x)
    assert (pinned.shape, pinned.dtype) == (x.shape, x.dtype)
    assert pinned.is_pinned() or not x.numel()


def test_gradients_flow_back_through_it():
    x = host().requires_grad_()
    (unidev.pin(x) * 2).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[2.0] * 3] * 2


def test_memory_on_a_gpu_is_not_pinned(cuda: Runtime):
    with pytest.raises(unidev.UnsupportedOperation, match="pinning a tensor on gpu:0"):
        unidev.pin({"x": host().to("cuda")})


def test_memory_that_cannot_be_locked_is_a_lack_of_memory(cuda: Runtime):
    torch.cuda.init()
    cuda.fail("pinned allocation", times=2)
    with pytest.raises(unidev.OutOfDeviceMemoryError, match="pinning a tensor of shape"):
        unidev.pin(host())
    cuda.reset()
    assert unidev.pin(host()).is_pinned()


def test_where_there_is_no_gpu_it_says_so(monkeypatch):
    monkeypatch.setenv("STAND_IN_GPUS", "0")
    with pytest.raises(unidev.UnsupportedOperation, match="there is none"):
        unidev.pin(host())
