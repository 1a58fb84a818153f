"""The state of Gluon optimizers in a checkpoint: continued, they give the same bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mxnet as mx
import numpy as np
import pytest
from optimizer_checks import check_continued, check_foreign_refused

import unidev
from unidev_mxnet.native_calls import numpy_semantics

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


def test_layers_of_the_process_before_do_not_matter() -> None:
    """Its parameters' names have numbers, by whose text a Trainer sorts: 10 comes before 9."""

    def alike() -> tuple[Any, Any]:
        net = unidev.nn.sequential(unidev.nn.dense(3, 3), unidev.nn.dense(3, 3))
        unidev.place(net, "cpu")
        first, second = (parameter.name for parameter in list(net.collect_params().values())[::2])
        orders.append(first < second)
        with numpy_semantics():
            return net, mx.gluon.Trainer(net.collect_params(), OPTIMIZERS["adam"]())

    orders: list[bool] = []
    states = []
    models = unidev.active_backend().models
    while len(set(orders)) < 2:
        assert len(orders) < 100
        net, trainer = alike()
        with numpy_semantics():
            with mx.autograd.record():
                loss = (net(unidev.ones((2, 3))) * 0 + sum(
                    (x * number).sum() for number, x in enumerate(unidev.parameters(net).values())
                )).sum()  # fmt: skip
            loss.backward()
            trainer.step(1)
        states.append(models.optimizer_state(trainer))
    before, after = states[-2:]
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_state_of_another_optimizer_is_refused_and_changes_nothing() -> None:
    net, adam = made("adam", "cpu")
    step(net, adam, 1)
    check_foreign_refused(net, adam, made("sgd", "cpu")[1], "Adam.states.99.0")


def test_what_is_not_a_trainer_of_one_device_is_refused() -> None:
    models = unidev.active_backend().models
    with pytest.raises(unidev.UnsupportedOperation, match="Trainer"):
        models.optimizer_state(mx.optimizer.Adam())
