"""The state of Flax's optimizers in a checkpoint: continued, they give the same bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import optax
import pytest
from flax import nnx
from training_checks import check_continued

import unidev
from unidev import nn

if TYPE_CHECKING:
    from pathlib import Path

OPTIMIZERS = {
    "momentum": lambda: optax.sgd(0.1, momentum=0.9),
    "schedule": lambda: optax.adamw(optax.exponential_decay(0.1, 2, 0.5)),
    "hyperparameters": lambda: optax.inject_hyperparams(optax.adam)(learning_rate=0.1),
}


def made(name: str) -> tuple[Any, Any]:
    unidev.seed(0)
    net = nn.sequential(nn.dense(4, 3), nn.dense(3, 2))
    return net, nnx.Optimizer(net, OPTIMIZERS[name](), wrt=nnx.Param)


def step(net: Any, optimizer: Any, number: int) -> None:
    x = jnp.linspace(-1.0, float(number), 20).reshape(5, 4)
    optimizer.update(net, nnx.grad(lambda net: (net(x) ** 2).sum())(net))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_one_that_goes_on_gives_the_bits_of_an_undisturbed_one(name: str, tmp_path: Path) -> None:
    check_continued(lambda: made(name), step, tmp_path)


def test_what_is_not_an_optimizer_of_flax_is_refused() -> None:
    with pytest.raises(unidev.NotAModelError, match=r"nnx\.Optimizer"):
        unidev.active_backend().models.optimizer_state(object())
