"""Operands, variables, and programs that mix devices: what TensorFlow moves silently."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import keras  # type: ignore[import-untyped]
import numpy as np
import tensorflow as tf  # type: ignore[import-untyped]

from unidev.contract import PlannedTransfer, TransferExample
from unidev_tensorflow.probe.transfers.place import MIXED, VALUES, Place, within

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from unidev_tensorflow.probe.transfers.place import Row, Use


def operands(place: Place) -> Iterator[TransferExample]:
    """TensorFlow moves operands silently to where it computes."""
    x, y = place.matrix(place.gpu), place.matrix(place.cpu)
    for name, call in (
        ("Tensor.__add__", lambda x, y: x + y),
        ("Tensor.__sub__", lambda x, y: x - y),
        ("Tensor.__mul__", lambda x, y: x * y),
        ("Tensor.__truediv__", lambda x, y: x / y),
        ("Tensor.__floordiv__", lambda x, y: x // y),
        ("Tensor.__mod__", lambda x, y: x % y),
        ("Tensor.__pow__", lambda x, y: x**y),
        ("Tensor.__eq__", lambda x, y: x == y),
        ("Tensor.__ne__", lambda x, y: x != y),
        ("tf.greater", lambda x, y: x > y),
        ("tf.maximum", tf.maximum),
        ("tf.stack", lambda x, y: tf.stack([x, y])),
        ("tf.concat", lambda x, y: tf.concat([x, y], 0)),
        ("tf.add_n", lambda x, y: tf.add_n([x, y, x, y])),
        ("tf.matmul", lambda x, y: tf.matmul(x, y, transpose_b=True)),
        ("tf.where", lambda x, y: tf.where(tf.constant(True), x, y)),
        ("tf.raw_ops.Mul", lambda x, y: tf.raw_ops.Mul(x=x, y=y)),
        ("tf.add", keras.ops.add),
        ("Add.__call__", lambda x, y: keras.layers.Add()([x, y])),
    ):
        for pair in ((x, y), (y, x)):
            yield place.reading(partial(call, *pair), name + MIXED, (24, (2, 3)))
            yield place.sending(partial(call, *pair), name + MIXED, (24, (2, 3)))
    for name, call in (
        ("Tensor.__mul__", lambda: x * x),
        ("Tensor.__add__", lambda: [x + 1.0 for _ in range(3)]),  # kept beside x
        ("Tensor.__rsub__", lambda: 1.0 - x),
        ("Tensor.__rpow__", lambda: 2.0**x),
        ("tf.negative", lambda: -x),
        ("tf.abs", lambda: abs(x)),
        ("tf.reduce_sum", lambda: tf.reduce_sum(x)),
        ("tf.reduce_sum", lambda: tf.reduce_sum(x, [0, 1])),
        ("tf.nn.relu", lambda: tf.nn.relu(x)),
        ("tf.transpose", lambda: tf.transpose(x)),
        ("tf.compat.v1.reduce_sum", lambda: tf.compat.v1.reduce_sum(x)),
        ("ReLU.__call__", lambda: keras.layers.ReLU()(x)),
        ("tf.map_fn", lambda: tf.map_fn(lambda row: row, x)),
        ("Tensor.__radd__" + MIXED, lambda: VALUES + x),
    ):
        yield place.reading(call, name, (24, (2, 3)))
    if place.other is not None:
        z = place.matrix(place.other)
        both = [
            PlannedTransfer("tf.add_n" + MIXED, source, place.cpu, 24, (2, 3))
            for source in (place.gpu, place.other)
        ]
        yield TransferExample(within(place.cpu.native, lambda: tf.add_n([x, y, z, x])), both)
        beside = [
            PlannedTransfer("tf.raw_ops.Mul", source, place.gpu, 24, (2, 3))
            for source in (place.cpu, place.other)
        ]
        multiply = partial(tf.raw_ops.Mul, x=z, y=VALUES)
        yield TransferExample(within(place.gpu.native, multiply), beside)


def variables(place: Place) -> Iterator[TransferExample]:
    """TensorFlow's and Keras's variables, read and assigned to; each time anew."""
    x, y = place.matrix(place.gpu), place.matrix(place.cpu)
    with tf.device(place.gpu.native):
        v, kept = tf.Variable(VALUES), keras.Variable(VALUES)
    whole = (24, (2, 3))
    reads: Sequence[Row] = (
        ("Variable.numpy", v.numpy, whole),
        ("Variable.read_value", v.read_value, whole),
        ("Variable.__repr__", lambda: str(v), whole),
        ("Variable.__getitem__", lambda: v[0, 0], whole),
        ("Tensor.__add__", lambda: v + 1.0, whole),
        ("Tensor.__rsub__", lambda: 1.0 - v, whole),
        ("Variable.__eq__" + MIXED, lambda: v == y, whole),
        ("tf.matmul" + MIXED, lambda: [tf.matmul(v, y, False, True) for _ in "ab"], whole, whole),
        ("Variable.numpy", lambda: [v.numpy(), v.numpy()], whole, whole),
        ("Variable.numpy", kept.numpy, whole),
    )
    for name, call, *moved in reads:
        yield place.reading(call, name, *moved)
    for name, call in (
        ("Variable.assign", lambda: v.assign(y)),
        ("Variable.assign", lambda: v.assign(VALUES)),
        ("Variable.assign_add", lambda: v.assign_add(y)),
        ("Variable.assign", lambda: kept.assign(y)),
    ):
        yield place.sending(call, name, whole)
    calls: Sequence[Use] = (lambda: v.assign(x), lambda: v + v, v.read_value, lambda: v.shape)
    yield from map(place.silent, calls)


def programs(place: Place) -> Iterator[TransferExample]:
    """Calls within calls: training, gradients, Python that the runtime calls, and errors."""
    x, y, z = map(place.matrix, (place.gpu, place.cpu, place.gpu))
    whole = (24, (2, 3))
    parts = np.array([[0, 1], [1, 2]]), np.array([2.0, 3.0], np.float32), np.array([2, 3])
    sparse = tf.SparseTensor(*(place.make(part, place.gpu) for part in parts))
    with tf.device(place.cpu.native):
        v = keras.Variable(VALUES)
        optimizer = keras.optimizers.SGD(0.1)
        optimizer.build([v])

    def back() -> None:
        with tf.GradientTape() as tape:
            tape.watch(x)
            with tf.device(place.cpu.native):
                loss = tf.reduce_sum(tf.square(tf.identity(x)))
        tape.gradient(loss, x)

    def forward() -> None:
        with tf.autodiff.ForwardAccumulator(y, y) as forward:
            forward.jvp(x * y)

    def mix() -> object:
        return [x + y, y + z][0]

    def made() -> Any:
        with tf.device(place.gpu.native):
            return tf.ones((2, 3))

    def fail() -> None:
        with suppress(tf.errors.InvalidArgumentError):
            x + tf.ones((5, 5))

    def refuse() -> None:
        before = tf.config.experimental.get_device_policy()
        tf.config.experimental.set_device_policy("explicit")
        try:
            with suppress(tf.errors.InvalidArgumentError):
                x + y
        finally:
            tf.config.experimental.set_device_policy(before)

    yield TransferExample(within(place.gpu.native, back), [
        PlannedTransfer("tf.identity", place.gpu, place.cpu, *whole),
        PlannedTransfer("GradientTape.gradient", place.cpu, place.gpu, *whole),
    ])  # fmt: skip
    rows: Sequence[Row] = (
        ("SGD.apply", lambda: optimizer.apply([x], [v]), whole),
        ("Tensor.__mul__" + MIXED, forward, whole),
        ("Tensor.__add__" + MIXED, fail, whole),
        # To the tracer the probe's own lines are no user's, so that the name is the outer call's.
        ("tf.py_function" + MIXED, lambda: tf.py_function(mix, [], tf.float32), whole, whole),
        ("tf.sparse.to_dense", lambda: tf.sparse.to_dense(sparse),
         (32, (2, 2)), (16, (2,)), (8, (2,))),
        ("Tensor.__add__", lambda: [made() + 1.0 for _ in range(3)], *3 * [whole]),
    )  # fmt: skip
    for name, call, *moved in rows:
        yield place.reading(call, name, *moved)
    add = tf.function(lambda a, b: a + b)
    calls: Sequence[Use] = (
        refuse, lambda: add(x, y), lambda: _refused(tf.constant, [[1.0], [1.0, 2.0]]),
        lambda: _refused(tf.add, tf.ones(2), tf.ones(3)),
    )  # fmt: skip
    yield from (place.silent(call, place.cpu) for call in calls)


def _refused(call: Use, *arguments: object) -> None:
    with suppress(tf.errors.InvalidArgumentError, ValueError):
        call(*arguments)
