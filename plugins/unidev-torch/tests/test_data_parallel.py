"""``DataParallel`` of torch's modules, against one device with the whole batch."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import pytest
import torch
from parallel_modules import bits, made, normed
from torch import nn
from training_checks import THREE, batch, check_training, squares

import unidev
from unidev import nn as portable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def change_unseen(net: unidev.DataParallel) -> None:
    net.model[0].weight.data.fill_(2)  # no version counter sees this


def change_the_object(net: unidev.DataParallel) -> None:
    home = net.devices[0].native
    net.model[0].weight = nn.Parameter(torch.full((8, 4), 2.0).to(home))


def change_the_dtype(net: unidev.DataParallel) -> None:
    net.model.double()
    net.model[0].weight.data.fill_(2)


def freeze(net: unidev.DataParallel) -> None:
    net.model[0].weight.requires_grad_(False)
    net.model[0].weight.data.fill_(2)


@pytest.mark.parametrize("change", [change_unseen, change_the_object, change_the_dtype, freeze])
def test_nothing_done_between_two_steps_leaves_a_replica_behind(
    change: Callable[[unidev.DataParallel], None],
) -> None:
    x, y = batch()
    net = unidev.DataParallel(made(), THREE)
    unidev.value_and_grad(squares)(net, x, y)
    change(net)
    dtype = net.model[0].weight.dtype
    alone = unidev.place(copy.deepcopy(net.model), "gpu:0")
    check_training(net, alone, (x.to(dtype), y.to(dtype)))


def test_in_inference_mode_statistics_keep_their_bits() -> None:
    x, y = batch()
    net = unidev.DataParallel(normed(), THREE)
    for _ in range(3):
        unidev.value_and_grad(squares)(net, x, y)
    assert portable.eval_mode(net) is net
    before = bits(net.model)
    for _ in range(5):
        unidev.value_and_grad(squares)(net, x, y)
        net(x)
    assert bits(net.model) == before
    portable.train_mode(net)
    assert net.model.training


def test_it_takes_the_place_of_the_model_in_other_verbs(tmp_path: Path) -> None:
    model = made()
    net = unidev.DataParallel(model, THREE)
    assert list(unidev.parameters(net)) == list(unidev.parameters(model))
    unidev.save_parameters(net, tmp_path / "x.safetensors")
    other = unidev.load_parameters(made(), tmp_path / "x.safetensors")
    assert bits(other) == bits(model)
    x, _ = batch()
    assert unidev.same_device(net, x)
    outputs = net(x)
    assert torch.equal(outputs.cpu(), model(x).cpu())
    assert not outputs.requires_grad
    assert outputs.device == x.device
    assert repr(net) == "DataParallel(Sequential, [gpu:0, gpu:1, gpu:2])"


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_accumulated_steps_are_one_step_with_all_their_rows(
    reduction: str, dtype: torch.dtype
) -> None:
    x, y = (values.to(dtype) for values in batch(9))

    def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return squares(model, x, y) * (len(y) if reduction == "sum" else 1)

    net = unidev.DataParallel(made().to(dtype), THREE[:2], reduction=reduction)
    step = unidev.value_and_grad(loss_of)
    whole = step(net, x, y)
    own = []
    with net.accumulate():
        own.extend(step(net, x[rows], y[rows]) for rows in (slice(0, 2), slice(2, 6)))
    loss, gradients = step(net, x[6:], y[6:])
    close = 1e-6 if dtype is torch.float32 else 1e-1
    assert torch.allclose(loss.cpu(), whole[0].cpu(), rtol=close)
    for name, gradient in gradients.items():
        assert gradient.dtype is dtype
        assert torch.allclose(gradient.cpu(), whole[1][name].cpu(), rtol=close, atol=close), name
        assert not torch.equal(gradient, own[0][1][name])
    again, _ = step(net, x, y)
    assert torch.equal(again, whole[0])


def test_a_step_that_raises_leaves_what_was_accumulated() -> None:
    x, y = batch(6)
    net = unidev.DataParallel(made(), THREE[:2])
    step = unidev.value_and_grad(squares)
    expected, _ = step(net, x, y)
    with net.accumulate():
        step(net, x[:4], y[:4])
        with pytest.raises(RuntimeError):
            step(net, x[4:, :1], y[4:])
    with net.accumulate(), pytest.raises(unidev.UnsupportedOperation), net.accumulate():
        pass
    loss, _ = step(net, x[4:], y[4:])
    assert torch.allclose(loss, expected, rtol=1e-6)


def test_parameters_frozen_meanwhile_are_named() -> None:
    x, y = batch(6)
    net = unidev.DataParallel(made(), THREE[:2])
    step = unidev.value_and_grad(squares)
    with net.accumulate():
        step(net, x, y)
    next(iter(net.model.parameters())).requires_grad_(False)
    with pytest.raises(unidev.InvalidDataError, match="differ from the accumulated ones"):
        step(net, x, y)


def test_gradients_that_the_user_keeps_stay() -> None:
    model = made()
    net = unidev.DataParallel(model, THREE)
    x, y = batch()
    squares(model, x, y).backward()
    kept = {
        name: (p.grad, p.grad.clone()) for name, p in model.named_parameters() if p.grad is not None
    }
    assert len(kept) == 4
    unidev.value_and_grad(squares)(net, x, y)
    for name, parameter in model.named_parameters():
        assert parameter.grad is kept[name][0]
        assert torch.equal(parameter.grad.cpu(), kept[name][1].cpu())
