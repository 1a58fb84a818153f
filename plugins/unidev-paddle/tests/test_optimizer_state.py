"""The state of Paddle optimizers in a checkpoint: continued, they give the same bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
import pytest
from training_checks import check_continued

import unidev

if TYPE_CHECKING:
    from pathlib import Path

optimizers = paddle.optimizer
OPTIMIZERS = {
    "Adam": lambda xs: optimizers.Adam(0.1, parameters=xs),
    "AdamW": lambda xs: optimizers.AdamW(0.1, parameters=xs, weight_decay=0.1),
    "Momentum": lambda xs: optimizers.Momentum(0.1, 0.9, parameters=xs),
    "SGD": lambda xs: optimizers.SGD(0.1, parameters=xs),
    "schedule": lambda xs: optimizers.Adam(optimizers.lr.StepDecay(0.1, 2), parameters=xs),
    "groups": lambda xs: optimizers.Adam(
        0.1, parameters=[{"params": xs[:1], "learning_rate": 0.5}, {"params": xs[1:]}]
    ),
}


def made(name: str, device: str) -> tuple[Any, Any]:
    paddle.seed(0)
    net = paddle.nn.Sequential(paddle.nn.Linear(4, 3), paddle.nn.Tanh(), paddle.nn.Linear(3, 2))
    unidev.place(net, device)
    return net, OPTIMIZERS[name](net.parameters())


def step(net: Any, optimizer: Any, number: int) -> None:
    values = np.linspace(-1, number, 20, dtype=np.float32).reshape(5, 4)
    x = unidev.array(values, device=unidev.device_of(net))
    (net(x) ** 2).sum().backward()
    optimizer.step()
    optimizer.clear_grad()
    if isinstance(optimizer._learning_rate, float):
        optimizer.set_lr(optimizer.get_lr() * 0.9)
    else:
        optimizer._learning_rate.step()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_one_that_goes_on_gives_the_bits_of_an_undisturbed_one(name: str, tmp_path: Path) -> None:
    check_continued(lambda: made(name, "gpu:1"), step, tmp_path)


def test_what_keeps_its_state_otherwise_is_refused() -> None:
    optimizer = paddle.optimizer.LBFGS(parameters=made("SGD", "cpu")[0].parameters())
    with pytest.raises(unidev.UnsupportedOperation, match="accumulators"):
        unidev.active_backend().models.optimizer_state(optimizer)
