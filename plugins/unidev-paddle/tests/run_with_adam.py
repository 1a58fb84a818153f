"""Training with Paddle's own Adam in workers, which import it."""

from __future__ import annotations

from typing import Any

import adam_runs
import paddle

import unidev


def train(folder: str, fails_at: int) -> tuple[int, bytes]:
    paddle.seed(unidev.group().rank)
    net = paddle.nn.Sequential(paddle.nn.Linear(4, 8), paddle.nn.Tanh(), paddle.nn.Linear(8, 3))
    optimizer = paddle.optimizer.Adam(0.05, parameters=net.parameters())
    return adam_runs.trained(folder, fails_at, (net, optimizer), loss_of, step)


def loss_of(net: Any, x: Any, y: Any) -> Any:
    return ((net(x) - y) ** 2).mean()


def step(net: Any, optimizer: Any, gradients: dict[str, Any]) -> None:
    for name, x in unidev.parameters(net).items():
        x.grad = gradients[name]
    optimizer.step()
    optimizer.clear_grad()
