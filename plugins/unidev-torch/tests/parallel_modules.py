"""Modules for the tests of ``place`` and ``DataParallel``, and what must hold of replicas."""

from __future__ import annotations

import torch
from torch import nn

import unidev

X = torch.linspace(-1, 1, 24).reshape(6, 4)


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 4))


def native(device: str) -> torch.device:
    found: torch.device = unidev.as_device(device).native
    return found


def made() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


def normed() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))


def bits(model: nn.Module) -> dict[str, bytes]:
    return {name: x.cpu().numpy().tobytes() for name, x in model.state_dict().items()}


def check_replicas(net: unidev.DataParallel) -> None:
    with net.replica(0) as model:
        expected = bits(model)
    for index, device in enumerate(net.devices):
        with net.replica(index) as model:
            assert bits(model) == expected
            assert {x.device for x in model.state_dict().values()} == {device.native}
    assert unidev.device_of(net) is net.devices[0]
