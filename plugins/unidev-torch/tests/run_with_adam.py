"""Training with PyTorch's own Adam in workers, which import it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import torch

import unidev

STEPS = 6


def train(folder: str, fails_at: int) -> tuple[int, bytes]:
    """Worker 1 is killed at a step, once. Returns where this attempt began, and the parameters."""
    group = unidev.group()
    torch.manual_seed(group.rank)
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    parallel = unidev.DataParallel(net)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    begun = group.restore(parallel, optimizer)
    for step in range(begun + 1, STEPS + 1):
        killed = Path(folder) / "killed"
        if step == fails_at and group.rank == 1 and not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        torch.manual_seed(step)
        batch = group.split_batch([torch.randn(7, 4), torch.randn(7, 3)])
        _, gradients = unidev.value_and_grad(loss_of)(parallel, *batch)
        for name, x in unidev.parameters(parallel).items():
            x.grad = gradients[name]
        optimizer.step()
        if step % 2 == 0:
            group.checkpoint(parallel, step, optimizer)
    return begun, b"".join(unidev.to_numpy(x).tobytes() for x in net.parameters())


def loss_of(net: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.mse_loss(net(x), y)
