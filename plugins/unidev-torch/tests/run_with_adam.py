"""Training with PyTorch's own Adam in workers, of which one is killed; workers import it."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import numpy as np
import torch

import unidev

STEPS = 6


def train(folder: str, fails_at: int) -> tuple[int, bytes]:
    """Worker 1 is killed at a step, once. Where this attempt began, and the parameters."""
    group = unidev.group()
    torch.manual_seed(group.rank)
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    parallel = unidev.DataParallel(net)
    begun = group.restore(parallel, optimizer)
    for number in range(begun + 1, STEPS + 1):
        killed = Path(folder) / "killed"
        if number == fails_at and group.rank == 1 and not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        draw = np.random.default_rng(number).standard_normal
        batch = [unidev.array(draw((7, width)).astype(np.float32)) for width in (4, 3)]
        _, gradients = unidev.value_and_grad(loss_of)(parallel, *group.split_batch(batch))
        for name, x in unidev.parameters(net).items():
            x.grad = gradients[name]
        optimizer.step()
        if number % 2 == 0:
            group.checkpoint(parallel, number, optimizer)
    found = unidev.parameters(parallel).values()
    return begun, b"".join(unidev.to_numpy(x).tobytes() for x in found)


def loss_of(net: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.mse_loss(net(x), y)


def restored() -> tuple[int, float, float]:
    """What a large model and its Adam are after ``restore``: the step, a weight, a moment."""
    group = unidev.group()
    net = torch.nn.Linear(1000, 500)
    with torch.no_grad():
        net.weight.fill_(3.0)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.5)
    net(torch.ones(2, 1000)).sum().backward()
    optimizer.step()
    group.checkpoint(net, 7, optimizer)
    other = torch.nn.Linear(1000, 500)
    fresh = torch.optim.Adam(other.parameters(), lr=0.5)
    step = group.restore(other, fresh)
    moment = fresh.state[other.weight]["exp_avg"]
    return step, other.weight[-1, -1].item(), round(moment[-1, -1].item(), 6)


def engines_joined() -> list[bool]:
    """Whether the fork lacks autograd, then whether it has joined gloo after each exchange."""
    group, found = unidev.group(), ["unidev_torch.autograd" not in sys.modules]
    for count in (8, 2 << 20):
        group.all_reduce(unidev.ones(count), in_place=True)
        found.append(torch.distributed.is_initialized())
    return found
