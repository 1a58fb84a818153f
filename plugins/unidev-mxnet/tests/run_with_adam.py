"""Training with MXNet's own Adam in workers, which import it."""

from __future__ import annotations

from typing import Any

import adam_runs
import mxnet as mx  # by itself: a worker has loaded unidev's backend before it imports this

import unidev


def train(folder: str, fails_at: int) -> tuple[int, bytes]:
    unidev.seed(unidev.group().rank)
    net = unidev.nn.sequential(unidev.nn.dense(4, 8), unidev.nn.relu(), unidev.nn.dense(8, 3))

    from unidev_mxnet.scopes import numpy_semantics

    with numpy_semantics():
        adam = mx.optimizer.Adam(learning_rate=0.05)
        trainer = mx.gluon.Trainer(net.collect_params(), adam, kvstore=None)
    return adam_runs.trained(folder, fails_at, (net, trainer), loss_of, step)


def loss_of(net: Any, x: Any, y: Any) -> Any:
    return ((net(x) - y) ** 2).mean()


def step(net: Any, trainer: Any, gradients: dict[str, Any]) -> None:
    from unidev_mxnet.scopes import numpy_semantics

    with numpy_semantics():
        for name, x in unidev.parameters(net).items():
            x.grad[:] = gradients[name]
        trainer.update(1, ignore_stale_grad=True)
