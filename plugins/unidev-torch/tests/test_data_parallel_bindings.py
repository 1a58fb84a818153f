"""``DataParallel`` of modules that bind tensors anew while they compute, or remember a device."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import unidev

BOTH = ["gpu:0", "gpu:1"]


class Rebinding(nn.Module):
    """Counts its calls in a buffer, and keeps rows in others, which it makes anew each time."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.calls = 0
        self.count: torch.Tensor
        self.register_buffer("count", torch.zeros(()))
        self.rows: torch.Tensor
        self.register_buffer("rows", torch.zeros(0))
        self.last: torch.Tensor | None
        self.register_buffer("last", None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.count = self.count + 1
        self.rows = torch.cat([self.rows, x[:, 0].detach()])
        self.last = x.detach()
        if not hasattr(self, "late"):
            self.register_buffer("late", torch.ones(2, device=x.device))
        return self.linear(x)


class Remembering(nn.Module):
    """Knows its device by ``to``, as a LightningModule does, and has tensors in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.device = torch.device("cpu")
        self.shifts = [torch.ones(2)]

    def to(self, *arguments: Any, **options: Any) -> Any:
        self.device = torch.device(arguments[0])
        return super().to(*arguments, **options)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        self.shifts = [fn(x) for x in self.shifts]
        return super()._apply(fn, recurse)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert self.device == x.device == self.shifts[0].device
        return self.linear(x) + self.shifts[0] + torch.zeros(2, device=self.device)


def total(model: Any, x: torch.Tensor) -> torch.Tensor:
    return model(x).sum()  # type: ignore[no-any-return]


def test_what_the_first_replica_binds_stays_and_that_of_others_is_lost() -> None:
    net = unidev.DataParallel(Rebinding(), BOTH)
    x = torch.arange(12.0).reshape(4, 3).to(unidev.gpu(0).native)
    for step in (1, 2, 3):
        unidev.value_and_grad(total)(net, x)
        model = net.model
        assert {unidev.device_of(each) for each in model.buffers()} == {unidev.gpu(0)}
        assert model.calls == model.count.item() == step
        assert model.rows.tolist() == [0.0, 3.0] * step
        assert model.last is not None
        assert torch.equal(model.last, x[:2])
    with net.replica(1) as replica:
        replica.count = replica.count + 7
        replica.other = 5
    assert net.model.count.item() == 3
    assert not hasattr(net.model, "other")


def test_a_step_that_raises_binds_nothing() -> None:
    net = unidev.DataParallel(Rebinding(), BOTH)
    count, x = net.model.count, torch.ones(4, 3, device=unidev.gpu(0).native)
    seen = []

    def failing(model: Any, x: torch.Tensor) -> torch.Tensor:
        seen.append(model(x))
        if len(seen) == 2:
            raise LookupError
        return seen[-1].sum()

    with pytest.raises(LookupError):
        unidev.value_and_grad(failing)(net, x)
    assert net.model.count is count
    assert count.item() == 0
    assert not hasattr(net.model, "late")


def test_each_replica_remembers_its_own_device() -> None:
    net = unidev.DataParallel(Remembering(), BOTH)
    x = torch.ones(4, 3, device=unidev.gpu(0).native)
    for _ in range(2):
        unidev.value_and_grad(total)(net, x)
    assert net.model.device == unidev.gpu(0).native
    assert unidev.device_of(net.model.shifts) is unidev.gpu(0)
