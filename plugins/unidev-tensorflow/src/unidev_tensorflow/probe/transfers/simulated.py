"""Examples that hold on simulated GPUs only: int32, shapes, training, calls outside of a scope."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import keras  # type: ignore[import-untyped]
import numpy as np
import tensorflow as tf  # type: ignore[import-untyped]

from unidev.contract import PlannedTransfer, TransferExample
from unidev_tensorflow.probe.transfers.calls import NUMBER
from unidev_tensorflow.probe.transfers.place import VALUES, Place, within

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from unidev_tensorflow.probe.transfers.place import Row


def whole_numbers(place: Place) -> Iterator[TransferExample]:
    """On simulated GPUs int32 is an ordinary dtype to the user's own calls."""
    for name, calls in NUMBER.items():
        for call in calls:
            yield place.reading(partial(call, place.make(np.int32(2), place.gpu)), name, (4, ()))
    x, y = (place.make(np.array([1, 2], np.int32), each) for each in (place.gpu, place.cpu))
    with tf.device(place.gpu.native):
        v, two, text = tf.Variable([1, 2]), tf.constant(2), tf.constant("a")
    eight = (8, (2,))
    yield place.reading(lambda: tf.identity(x), "tf.identity", eight)
    yield place.reading(lambda: str(v), "Variable.__repr__", eight)
    yield place.reading(v.numpy, "Variable.numpy", eight)
    yield place.sending(lambda: tf.constant([1, 2]), "tf.constant", eight)
    yield place.sending(lambda: tf.convert_to_tensor([1, 2]), "tf.convert_to_tensor", eight)
    yield place.sending(lambda: tf.Variable([1, 2]), "Variable.__init__", eight)
    for call in (
        lambda: x + y, lambda: y + x, lambda: tf.reshape(x, [1, two]), lambda: tf.range(two),
        lambda: tf.fill([two], 1.0),
        lambda: tf.get_static_value(two), text.numpy, lambda: tf.identity(text),
    ):  # fmt: skip
        yield place.silent(call)
        yield place.silent(call, place.cpu)


def outside_a_scope(place: Place) -> Iterator[TransferExample]:
    """There TensorFlow computes on the CPU, as it does in the scope of a missing device."""
    x = place.matrix(place.gpu)
    for name in (None, "/device:CPU:99", "/device:GPU:0"):
        for called, call in (
            ("Tensor.__add__", lambda: x + 1.0),
            ("tf.identity", lambda: tf.identity(x)),
        ):
            moved = PlannedTransfer(called, place.gpu, place.cpu, 24, (2, 3))
            yield TransferExample(within(name, call), [moved])
        yield TransferExample(within(name, lambda: tf.constant(VALUES)), ())
    yield place.reading(within(None, x._copy), "Tensor._copy", (24, (2, 3)))
    with tf.device(place.gpu.native):
        handle = tf.Variable(VALUES).handle
    yield place.silent(handle._copy, place.cpu)  # it refers to memory, and has none


def shapes(place: Place) -> Iterator[TransferExample]:
    """TensorFlow's kernels read shapes and axes on the host, also from a simulated GPU."""
    x, one = place.matrix(place.gpu), place.make(np.int64(1), place.gpu)
    shape = place.make(np.array([3, 2]), place.gpu)
    rows: Sequence[Row] = (
        ("tf.range", lambda: tf.range(one), *3 * [(8, ())]),  # from 0 by 1
        ("tf.fill", lambda: [tf.fill(shape, 1.0) for _ in range(2)], (16, (2,))),
        ("tf.reshape", lambda: tf.reshape(x, shape), (16, (2,))),
        ("tf.raw_ops.ConcatV2", lambda: tf.raw_ops.ConcatV2(values=[x, x], axis=one), (8, ())),
    )
    for name, call, *moved in rows:
        yield place.reading(call, name, *moved, at=place.gpu)
    beside = partial(tf.raw_ops.Reshape, tensor=VALUES, shape=shape)
    yield TransferExample(within(place.gpu.native, beside), [
        PlannedTransfer("tf.raw_ops.Reshape", place.cpu, place.gpu, 24, (2, 3)),
        PlannedTransfer("tf.raw_ops.Reshape", place.gpu, place.cpu, 16, (2,)),
    ])  # fmt: skip


def training(place: Place) -> Iterator[TransferExample]:
    """Training by Keras on one device: its counters and shapes are not the user's data."""
    with tf.device(place.gpu.native):
        model = keras.Sequential([
            keras.layers.Dense(4, activation="relu"), keras.layers.BatchNormalization(),
            keras.layers.Dense(1),
        ])  # fmt: skip
        x, y = place.matrix(place.gpu), tf.ones((2, 1))
        model(x)
        optimizer = keras.optimizers.Adam(0.01)
        optimizer.build(model.trainable_variables)

    def train() -> None:
        for _ in range(2):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
            optimizer.apply(tape.gradient(loss, model.trainable_variables))

    yield place.silent(train)
