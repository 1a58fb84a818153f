"""``DataParallel(…, batch_norm="synchronized")`` on Keras's own layers."""

from __future__ import annotations

from typing import Any

import keras
import pytest
import tensorflow as tf
from training_checks import check_norms

import unidev

Norm = keras.layers.BatchNormalization


class Own(Norm):  # type: ignore[misc]  # Keras is untyped
    def call(self, inputs: Any) -> Any:
        """As it is."""
        return inputs


def filled(model: Any) -> Any:
    keras.utils.set_random_seed(1)
    for x in model.trainable_variables:
        x.assign(tf.random.uniform(x.shape, 0.5, 1.5))
    return model


def functional() -> Any:
    x = keras.Input((4, 4, 2))
    y = keras.layers.Conv2D(3, 1)(x)
    y = Norm()(y) + Norm(scale=False, center=False)(keras.layers.Conv2D(3, 1)(x))
    return filled(keras.Model(x, Norm(renorm=True)(y)))


def partly_frozen() -> Any:
    dense = keras.layers.Dense
    norms = Norm(axis=1), Norm(trainable=False)
    return filled(keras.Sequential([keras.Input((3,)), dense(4), *norms, dense(2)]))


def computed(model: Any, x: Any) -> Any:
    return Measured(model(x, training=True))


class Measured:
    """``(y * y * y).mean()`` of a tensor, which Keras's has not."""

    def __init__(self, y: Any) -> None:
        self._y = y

    def __mul__(self, other: Measured) -> Measured:
        return Measured(self._y * other._y)

    def mean(self) -> Any:
        """Over all."""
        return tf.reduce_mean(self._y)


def test_the_whole_batch() -> None:
    check_norms("tensorflow", [(functional, (4, 4, 2)), (partly_frozen, (3,))], computed)


def refused() -> list[str]:
    heard = []
    x, y = unidev.ones((2, 3)), unidev.ones((2, 3, 2))
    masking = [keras.Input((3, 2)), keras.layers.Masking(), Norm()]
    for model, given, compiled in (
        (keras.Sequential([keras.Input((3,)), Norm()]), x, True),
        (keras.Sequential(masking), y, False),
    ):
        parallel = unidev.DataParallel(model, batch_norm="synchronized")

        def loss_of(model: Any, x: Any) -> Any:
            return tf.reduce_mean(model(x, training=True))

        inside = tf.function(loss_of) if compiled else loss_of
        try:
            unidev.value_and_grad(inside)(parallel, given)
        except RuntimeError as refusal:  # a tf.function makes it one of its own
            heard.append(str(refusal))
    return heard


def test_what_cannot_wait_for_other_workers_is_named() -> None:
    for compiled, masked in unidev.run(refused, backend="tensorflow", timeout=120):
        assert "in a tf.function, inside which nothing can wait for other workers" in compiled
        assert "its input has a mask" in masked


def test_what_cannot_be_synchronized_is_named() -> None:
    for layer, said in (
        (keras.layers.Dense(2), "no keras.layers.BatchNormalization"),
        (Own(), "its Own has a call of its own"),
    ):
        model = keras.Sequential([keras.Input((2,)), layer])
        with pytest.raises(unidev.UnsupportedOperation, match=said):
            unidev.DataParallel(model, batch_norm="synchronized")
    normed = keras.Sequential([keras.Input((2,)), Norm()])
    unidev.DataParallel(normed, batch_norm="synchronized")
