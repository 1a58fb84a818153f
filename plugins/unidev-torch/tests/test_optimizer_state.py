"""The state of torch optimizers in a checkpoint: continued, they give the same bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from training_checks import check_continued

import unidev

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "Adam": lambda xs: torch.optim.Adam(xs, lr=0.1, amsgrad=True),
    "AdamW": lambda xs: torch.optim.AdamW([{"params": xs[:1], "lr": 0.3}, {"params": xs[1:]}]),
    "tensor lr": lambda xs: torch.optim.Adam(xs, lr=torch.tensor(0.1)),
    "SGD": lambda xs: torch.optim.SGD(xs, lr=0.1, momentum=0.9, nesterov=True),
    "SGD without momentum": lambda xs: torch.optim.SGD(xs, lr=0.1),
    "ASGD": torch.optim.ASGD,
    "Rprop": torch.optim.Rprop,
    "NAdam": torch.optim.NAdam,
    "Adafactor": torch.optim.Adafactor,
}


def made(name: str, device: str) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2))
    net.to(device)
    return net, OPTIMIZERS[name](list(net.parameters()))


def step(net: torch.nn.Module, optimizer: torch.optim.Optimizer, number: int) -> None:
    x = torch.linspace(-1, number, 20).reshape(5, 4).to(next(net.parameters()).device)
    optimizer.zero_grad()
    (net(x) ** 2).sum().backward()
    optimizer.step()
    optimizer.param_groups[0]["lr"] *= 0.9  # a schedule


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_one_that_goes_on_gives_the_bits_of_an_undisturbed_one(name: str, tmp_path: Path) -> None:
    check_continued(lambda: made(name, "sim:1"), step, tmp_path)


def test_state_of_other_groups_is_refused() -> None:
    models = unidev.active_backend().models
    net, adam = made("Adam", "cpu")
    state = dict(models.optimizer_state(adam))
    for each in (
        models.optimizer_state(torch.optim.Adam(list(net.parameters())[:2], amsgrad=True)),
        {key: values for key, values in state.items() if not key.endswith(".lr")},
        {**state, "Adam.groups.0.params": np.array([0, 1])},
    ):
        with pytest.raises(unidev.CheckpointError):
            models.load_optimizer_state(net, adam, each)


def test_what_is_not_a_number_or_a_tensor_is_named() -> None:
    x = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.LBFGS([x])

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = (x**2).sum()
        loss.backward()
        return loss

    optimizer.step(closure)  # type: ignore[arg-type]
    with pytest.raises(unidev.UnsupportedOperation, match="list as"):
        unidev.active_backend().models.optimizer_state(optimizer)
