"""Training with PyTorch's own Adam in workers, which import it."""

from __future__ import annotations

import adam_runs
import torch

import unidev


def train(folder: str, fails_at: int) -> tuple[int, bytes]:
    torch.manual_seed(unidev.group().rank)
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    return adam_runs.trained(folder, fails_at, (net, optimizer), loss_of, step)


def loss_of(net: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.mse_loss(net(x), y)


def step(
    net: torch.nn.Module, optimizer: torch.optim.Optimizer, gradients: dict[str, torch.Tensor]
) -> None:
    for name, x in unidev.parameters(net).items():
        x.grad = gradients[name]
    optimizer.step()


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
