"""The state of Keras optimizers in a checkpoint: continued, they give the same bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras
import pytest
import tensorflow as tf
from training_checks import check_continued

import unidev

if TYPE_CHECKING:
    from pathlib import Path

OPTIMIZERS = {
    "SGD": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    "plain SGD": lambda: keras.optimizers.SGD(0.1),
    "schedule": lambda: keras.optimizers.AdamW(
        keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)
    ),
    "scaled": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.1)),
}


def made(name: str) -> tuple[Any, Any]:
    keras.utils.set_random_seed(0)
    net = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(2)])
    return net, OPTIMIZERS[name]()


def step(net: Any, optimizer: Any, number: int) -> None:
    x = tf.reshape(tf.linspace(-1.0, float(number), 20), (5, 4))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(net(x) ** 2)
        if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
            loss = optimizer.scale_loss(loss)
    variables = net.trainable_variables
    optimizer.apply(tape.gradient(loss, variables), variables)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_one_that_goes_on_gives_the_bits_of_an_undisturbed_one(name: str, tmp_path: Path) -> None:
    check_continued(lambda: made(name), step, tmp_path)


def test_what_is_not_an_optimizer_of_keras_is_refused() -> None:
    with pytest.raises(unidev.UnsupportedOperation, match=r"keras\.optimizers"):
        unidev.active_backend().models.optimizer_state(object())
