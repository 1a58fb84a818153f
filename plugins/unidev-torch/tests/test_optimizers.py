"""Optimizers that are placed with their model, and what of them moves."""

from __future__ import annotations

import argparse

import pytest
import torch
from parallel_modules import X, native, net
from torch import nn

import unidev


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> list[float]:
    x = X.to(next(model.parameters()).device)

    def loss_of() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss

    losses = []
    for _ in range(steps):
        losses.append(loss_of().item())
        optimizer.step(loss_of)
    return losses


OPTIMIZERS = {
    "sgd with momentum": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9),
    "adam": lambda ps: torch.optim.Adam(ps, lr=0.01),
    "adam, one at a time": lambda ps: torch.optim.Adam(ps, lr=0.01, foreach=False),
    "adam with averages": lambda ps: torch.optim.Adam(ps, lr=0.01, amsgrad=True),
    "adamw, a tensor for its rate": lambda ps: torch.optim.AdamW(
        ps, lr=torch.tensor(0.01), foreach=False
    ),
    "adagrad": lambda ps: torch.optim.Adagrad(ps, lr=0.1),
    "rmsprop": lambda ps: torch.optim.RMSprop(ps, lr=0.01, centered=True, momentum=0.9),
    "lbfgs": lambda ps: torch.optim.LBFGS(ps, lr=0.1, max_iter=2),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_made_before_trains_after_each_move_as_one_never_moved(name: str) -> None:
    moved, unmoved = net(), net()
    optimizer = OPTIMIZERS[name](list(moved.parameters()))
    other = OPTIMIZERS[name](list(unmoved.parameters()))
    losses, expected = train(moved, optimizer, 2), train(unmoved, other, 2)
    for device in ("gpu:1", "gpu:0", "cpu", "gpu:2"):
        assert unidev.place(moved, device, optimizer=optimizer) == (moved, optimizer)
        losses += train(moved, optimizer, 2)
        expected += train(unmoved, other, 2)
        assert {x.device for x in moved.state_dict().values()} == {native(device)}
    assert losses == expected
    assert losses[-1] < losses[0]


def test_what_the_optimizer_counts_in_stays_where_torch_keeps_it() -> None:
    model = net()
    optimizer = torch.optim.Adam(model.parameters())
    train(model, optimizer, 1)
    unidev.place(model, "gpu:1", optimizer=optimizer)
    for state in optimizer.state.values():
        assert state["step"].device == torch.device("cpu")
        assert state["exp_avg"].device == state["exp_avg_sq"].device == native("gpu:1")


def test_an_optimizer_of_two_models_takes_along_the_state_of_one() -> None:
    one, two = net(), net()
    optimizer = torch.optim.SGD([*one.parameters(), *two.parameters()], lr=0.1, momentum=0.9)
    (one(X).sum() + two(X).sum()).backward()
    optimizer.step()
    unidev.place(one, "gpu:1", optimizer=optimizer)
    for model, device in ((one, native("gpu:1")), (two, torch.device("cpu"))):
        for x in model.parameters():
            assert optimizer.state[x]["momentum_buffer"].device == x.device == device


def test_an_optimizer_of_another_model_is_refused() -> None:
    model = net()
    with pytest.raises(unidev.UnsupportedOperation, match="trains none of the model's parameters"):
        unidev.place(model, "gpu:0", optimizer=torch.optim.SGD(net().parameters()))
    with pytest.raises(unidev.NotAModelError, match=r"expected an optimizer of torch\.optim"):
        unidev.place(model, "gpu:0", optimizer=object())
    assert model[0].weight.device == torch.device("cpu")


def test_a_rate_on_an_accelerator_follows_and_one_on_the_cpu_stays() -> None:
    for device, expected in (("gpu:0", "gpu:1"), ("cpu", "cpu")):
        model = unidev.place(net(), "gpu:0")
        rate = torch.tensor(0.01, device=native(device))
        optimizer = torch.optim.Adam(model.parameters(), lr=rate, foreach=False)
        unidev.place(model, "gpu:1", optimizer=optimizer)
        assert optimizer.param_groups[0]["lr"] is rate
        assert rate.device == native(expected)


def test_counters_of_a_capturable_optimizer_move() -> None:
    model = unidev.place(net(), "gpu:0")
    optimizer = torch.optim.Adam(model.parameters())
    train(model, optimizer, 1)
    optimizer.param_groups[0]["capturable"] = True
    for state in optimizer.state.values():
        state["step"] = state["step"].to(native("gpu:0"))
    unidev.place(model, "gpu:1", optimizer=optimizer)
    for state in optimizer.state.values():
        assert {x.device for x in state.values()} == {native("gpu:1")}


def test_an_optimizer_that_was_left_behind_can_be_brought_later() -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    train(model, optimizer, 1)
    unidev.place(model, "gpu:1")
    address = model[0].weight.data_ptr()
    unidev.place(model, "gpu:1", optimizer=optimizer)
    assert model[0].weight.data_ptr() == address
    train(model, optimizer, 1)


def test_an_optimizer_is_no_model() -> None:
    optimizer = torch.optim.SGD(net().parameters())
    with pytest.raises(unidev.NotATensorError, match=r"at \['o'\] is an optimizer: place"):
        unidev.copy_to({"o": optimizer}, "cpu")
    for call in (lambda: unidev.parameters(optimizer), lambda: unidev.nn.eval_mode(optimizer)):
        with pytest.raises(unidev.NotAModelError, match=r"optimizer=optimizer"):
            call()


class Slow(torch.optim.SGD):
    """Keeps copies of its own, as averaging optimizers do, and a part of its state in an object."""

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        super().__init__(parameters, lr=0.1)
        self.slow = [x.detach().clone() for x in parameters]
        self.alpha, self.model = torch.tensor(0.5), net()
        self.inner = [torch.optim.Adam(self.param_groups, lr=0.1)]
        self.state[parameters[0]]["object"] = argparse.Namespace(factors=(torch.ones(2),))


def test_what_an_optimizer_keeps_beside_its_state_moves_and_is_not_lost_in_a_checkpoint() -> None:
    model = net()
    optimizer = Slow(list(model.parameters()))
    train(model, optimizer.inner[0], 1)
    unidev.place(model, "gpu:1", optimizer=optimizer)
    inner = optimizer.inner[0].state.values()
    moved = [*optimizer.slow, *(state["exp_avg"] for state in inner)]
    moved += optimizer.state[next(model.parameters())]["object"].factors
    assert {x.device for x in moved} == {native("gpu:1")}
    kept = [optimizer.alpha, *optimizer.model.parameters(), *(state["step"] for state in inner)]
    assert {x.device for x in kept} == {native("cpu")}
    with pytest.raises(unidev.UnsupportedOperation, match=r"object\.factors\.0' beside"):
        unidev.active_backend().models.optimizer_state(optimizer)


def test_counters_that_are_beside_the_parameter_follow_it() -> None:
    model = unidev.place(net(), "gpu:0")
    optimizer = torch.optim.ASGD(model.parameters(), lr=0.01)
    train(model, optimizer, 1)
    for device in ("gpu:1", "cpu"):
        unidev.place(model, device, optimizer=optimizer)
        for state in optimizer.state.values():
            assert {x.device for x in state.values()} == {native(device)}
        train(model, optimizer, 1)
