"""``value_and_grad``, ``sgd`` and ``no_grad`` with torch's own autograd around them."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from torch import nn

import unidev

X = torch.linspace(-1, 1, 12).reshape(3, 4)


def native(device: str) -> torch.device:
    found: torch.device = unidev.as_device(device).native
    return found


def squares(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = model(x).square().mean()
    return found


@pytest.mark.parametrize("scope", [torch.no_grad, torch.inference_mode])
def test_it_records_inside_scopes_that_do_not(scope: type) -> None:
    w = torch.ones(3)
    with scope():
        loss, slope = unidev.value_and_grad(lambda w: (w * w).sum())(w)
        assert not torch.is_grad_enabled()
    assert (loss.item(), slope.tolist()) == (3.0, [2.0, 2.0, 2.0])
    assert torch.is_grad_enabled()


def test_a_tensor_with_a_history_is_cut_off_from_it() -> None:
    source = torch.ones(3, requires_grad=True)
    loss, slope = unidev.value_and_grad(lambda w: (w * w).sum())(source * 2)
    assert (loss.item(), slope.tolist()) == (12.0, [4.0, 4.0, 4.0])
    assert source.grad is None


def test_integers_have_no_gradient_and_the_error_says_so() -> None:
    with pytest.raises(unidev.UnsupportedDtypeError, match=r"x\.float\(\)"):
        unidev.value_and_grad(lambda w: w.sum())(torch.arange(3))


def test_a_step_tells_autograd_that_the_parameters_changed() -> None:
    w = torch.ones(3, requires_grad=True)
    loss = (w * w).sum()
    unidev.sgd(w, torch.ones(3), lr=0.5)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_threads_train_models_of_their_own_at_once() -> None:
    def work(number: int, results: dict[int, list[float]]) -> None:
        unidev.place(models[number], f"gpu:{number}")
        x = X.to(native(f"gpu:{number}"))
        losses = []
        for _ in range(20):
            loss, gradients = unidev.value_and_grad(squares)(models[number], x)
            unidev.sgd(models[number], gradients, lr=0.1)
            losses.append(loss.item())
        results[number] = losses

    torch.manual_seed(0)
    first = nn.Linear(4, 2)
    models = [nn.Linear(4, 2) for _ in range(4)]
    for model in models:
        model.load_state_dict(first.state_dict())
    results: dict[int, list[float]] = {}
    threads = [threading.Thread(target=work, args=(number, results)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert results[0] == results[1] == results[2] == results[3]
    assert results[0][-1] < results[0][0]


def test_an_inference_tensor_has_no_gradient() -> None:
    with torch.inference_mode():
        x, model = torch.ones(2), torch.nn.Linear(2, 1)
    for call in (
        lambda: unidev.value_and_grad(lambda x: x.sum())(x),
        lambda: unidev.value_and_grad(lambda xs: xs[1].sum())([torch.ones(1), x]),
        lambda: unidev.value_and_grad(lambda model: model(torch.ones(1, 2)).sum())(model),
    ):
        for mode in (False, True):
            with torch.inference_mode(mode), pytest.raises(unidev.UnsupportedOperation) as caught:
                call()
            assert "clone it, outside of that mode" in str(caught.value)


class Again(torch.autograd.Function):
    """A module, which backward calls again to differentiate it by itself."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, module: nn.Module) -> Any:
        ctx.found = module, x
        return module(x)

    @staticmethod
    def backward(ctx: Any, *slopes: torch.Tensor) -> Any:
        module, x = ctx.found
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            module(x).backward(*slopes)
        return x.grad, None


def test_a_backward_within_backward_is_refused_and_unused_parameters_beside_one_get_zeros() -> None:
    net = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
    net[1].requires_grad_(requires_grad=False)

    def loss_of(net: Any, inner: int, outer: int | None) -> torch.Tensor:
        x = X.clone().requires_grad_() if outer is None else net[outer](X)
        found: torch.Tensor = net[2](Again.apply(x, net[inner])).sum()
        return found

    for inner, outer in ((0, None), (2, None), (2, 0)):  # left out, and called
        with pytest.raises(unidev.UnsupportedOperation, match=r"Again.*use_reentrant=False"):
            unidev.value_and_grad(loss_of)(net, inner, outer)
        assert [x.grad for x in net.parameters()] == [None] * 6
    for outer in (0, None):
        _, gradients = unidev.value_and_grad(loss_of)(net, 1, outer)
        assert bool(gradients["0.weight"].any()) == (outer == 0)
        assert gradients["2.weight"].any()
