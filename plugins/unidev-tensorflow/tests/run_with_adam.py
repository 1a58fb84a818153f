"""Training with Keras's own Adam in workers, which import it."""

from __future__ import annotations

from typing import Any

import adam_runs
import keras
import tensorflow as tf

import unidev


def train(folder: str, fails_at: int) -> tuple[int, bytes]:
    keras.utils.set_random_seed(unidev.group().rank)
    net = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(3)]
    )
    optimizer = keras.optimizers.Adam(0.05)
    return adam_runs.trained(folder, fails_at, (net, optimizer), loss_of, step)


def loss_of(net: Any, x: Any, y: Any) -> Any:
    return tf.reduce_mean((net(x) - y) ** 2)


def step(net: Any, optimizer: Any, gradients: dict[str, Any]) -> None:
    optimizer.apply(list(gradients.values()), net.trainable_variables)
