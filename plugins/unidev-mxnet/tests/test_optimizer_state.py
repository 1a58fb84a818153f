"""The state of Gluon optimizers in a checkpoint: continued, they give the same bits."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import mxnet as mx
import numpy as np
import pytest
from training_checks import check_continued

import unidev
from unidev_mxnet.scopes import numpy_semantics

if TYPE_CHECKING:
    from pathlib import Path

OPTIMIZERS = {
    "adam": lambda: mx.optimizer.Adam(learning_rate=0.1),
    "sgd": lambda: mx.optimizer.SGD(learning_rate=0.1, momentum=0.9),
    "plain sgd": lambda: mx.optimizer.SGD(learning_rate=0.1),
    "schedule": lambda: mx.optimizer.Adam(
        lr_scheduler=mx.lr_scheduler.FactorScheduler(2, 0.5, base_lr=0.1)
    ),
}


def made(name: str, device: str) -> tuple[Any, Any]:
    net = unidev.nn.sequential(unidev.nn.dense(4, 3), unidev.nn.relu(), unidev.nn.dense(3, 2))
    unidev.place(net, device)
    for number, x in enumerate(unidev.parameters(net).values()):
        x[:] = mx.np.array(np.linspace(-1, 1 + number, x.size).reshape(x.shape), ctx=x.ctx)
    with numpy_semantics():
        return net, mx.gluon.Trainer(net.collect_params(), OPTIMIZERS[name]())


def step(net: Any, trainer: Any, number: int) -> None:
    values = np.linspace(-1, number, 20, dtype=np.float32).reshape(5, 4)
    x = unidev.array(values, device=unidev.device_of(net))
    with numpy_semantics():
        with mx.autograd.record():
            loss = (net(x) ** 2).sum()
        loss.backward()
        trainer.step(1)
    if trainer._optimizer.lr_scheduler is None:
        trainer.set_learning_rate(trainer.learning_rate * 0.9)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_one_that_goes_on_gives_the_bits_of_an_undisturbed_one(name: str, tmp_path: Path) -> None:
    check_continued(lambda: made(name, "gpu:1"), step, tmp_path)


def numbers(net: Any) -> list[int]:
    """Those that Gluon has given the layers of the net, in their order."""
    names = [parameter.name for parameter in net.collect_params().values()]
    return [int(re.findall(r"\d+", name)[-1]) for name in names if name.endswith("weight")]


def alike() -> tuple[list[int], dict[str, Any]]:
    """The numbers of two layers, and the optimizer's state after a step of different gradients."""
    net = unidev.nn.sequential(unidev.nn.dense(3, 3), unidev.nn.dense(3, 3))
    with numpy_semantics():
        trainer = mx.gluon.Trainer(net.collect_params(), OPTIMIZERS["adam"]())
        with mx.autograd.record():
            loss = sum((x * n).sum() for n, x in enumerate(unidev.parameters(net).values(), 1))
        loss.backward()
        trainer.step(1)
    return numbers(net), dict(unidev.active_backend().models.optimizer_state(trainer))


def test_layers_that_the_process_has_made_before_do_not_matter() -> None:
    """A Trainer sorts names as text: the tenth layer comes before the ninth."""
    _, before = alike()
    while set(str(numbers(unidev.nn.dense(3, 3))[0] + 1)) != {"9"}:
        pass
    (first, second), after = alike()
    assert str(first) > str(second)
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_what_is_not_a_trainer_of_one_device_is_refused() -> None:
    models = unidev.active_backend().models
    with pytest.raises(unidev.UnsupportedOperation, match="Trainer"):
        models.optimizer_state(mx.optimizer.Adam())
