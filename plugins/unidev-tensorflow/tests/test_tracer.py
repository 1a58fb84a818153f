"""What TensorFlow moves is reported: each transfer once, by the user's call, with its bytes."""

import copy
import io
import pickle

import numpy as np
import pytest
import tensorflow as tf
from traced import VALUES, in_scope, matrix, number, reading, recorded, sending, variable, whole


def test_a_script_gives_exactly_its_transfers_in_order():
    weights = variable()

    def script():
        with tf.device("/CPU:1"):
            batch = tf.constant(np.ones((4, 2), np.float32))  # 32 bytes
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(batch @ weights))
            gradient = tape.gradient(loss, weights)
            weights.assign_sub(0.1 * gradient)
        if loss > 0:  # computed on the host: 4
            str(loss)  # 4
        with tf.device("/CPU:2"):
            other = tf.identity(batch)  # 32
        mixed = other + tf.ones((4, 2))  # 32
        np.asarray(other)  # 32
        float(mixed[0, 0])
        weights.assign(VALUES)  # 24
        weights.numpy()  # 24

    assert recorded(script) == [
        ("tf.constant", "cpu:0", "gpu:0", 32, (4, 2)),
        ("tf.greater", "gpu:0", "cpu:0", 4, ()),
        ("Tensor.__str__", "gpu:0", "cpu:0", 4, ()),
        ("tf.identity", "gpu:0", "gpu:1", 32, (4, 2)),
        ("Tensor.__add__ of mixed operands", "gpu:1", "cpu:0", 32, (4, 2)),
        ("numpy.asarray", "gpu:1", "cpu:0", 32, (4, 2)),
        ("Variable.assign", "cpu:0", "gpu:0", 24, (2, 3)),
        ("Variable.numpy", "gpu:0", "cpu:0", 24, (2, 3)),
    ]


@pytest.mark.parametrize(
    ("read", "operation"),
    [
        (lambda x: x.numpy(), "Tensor.numpy"),
        (bool, "Tensor.__bool__"),
        (int, "Tensor.__int__"),
        (float, "Tensor.__float__"),
        (complex, "Tensor.__complex__"),
        (str, "Tensor.__str__"),
        (repr, "Tensor.__repr__"),
        (print, "Tensor.__str__"),
        (lambda x: f"{x}", "Tensor.__format__"),
        (lambda x: f"{x:.2f}", "Tensor.__format__"),
        (lambda x: "%.2f" % x, "Tensor.__float__"),  # noqa: UP031  a user's
        (lambda x: x.__array__(), "Tensor.__array__"),
        (lambda x: np.asarray(x, None), "numpy.asarray"),
        (lambda x: np.array(x, copy=True), "numpy.array"),
        (lambda x: np.array([x, x]), "numpy.array"),
        (np.sum, "numpy.sum"),
        (lambda x: np.isclose(x, 2.0), "numpy.isclose"),
        (lambda x: np.stack([x, x]), "numpy.stack"),
        (lambda x: np.save(io.BytesIO(), x), "numpy.save"),
        (pickle.dumps, "pickle"),
        (tf.get_static_value, "tf.get_static_value"),
        (tf.make_tensor_proto, "tf.make_tensor_proto"),
        (lambda x: tf.print(x, output_stream="file:///dev/null"), "tf.print"),
    ],
)
def test_reading_is_reported_by_the_call_that_reads(read, operation):
    assert recorded(read, number()) == reading(operation, 4, ())
    assert recorded(read, number("cpu")) == []


def test_reading_again_moves_again():
    x = number()
    assert recorded(lambda: [float(x) for _ in range(3)]) == 3 * reading("Tensor.__float__", 4, ())


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (lambda x: "ab"[x], reading("Tensor.__index__", 8, ())),
        (lambda x: range(5)[x], reading("Tensor.__index__", 8, ())),
        (lambda x: np.zeros(2)[x], reading("Tensor.__index__", 8, ())),
        (lambda x: tf.zeros(2)[x], reading("Tensor.__getitem__", 8, ())),
        (lambda x: tf.zeros(2)[:x], reading("Tensor.__getitem__", 8, ())),
        (tf.range, reading("tf.range", 8, ())),
        (lambda x: tf.expand_dims(tf.zeros(2), x), reading("tf.expand_dims", 8, ())),
        (lambda x: tf.gather(tf.zeros(2), x), reading("tf.gather of mixed operands", 8, ())),
    ],
)
def test_an_index_of_a_device_is_read(read, expected):
    assert recorded(read, whole()) == expected
    assert recorded(read, whole("cpu")) == []


def test_a_condition_reads_what_was_computed():
    def decide(x):
        return 1 if x > 0 else 2

    x = number()
    assert recorded(lambda: in_scope(decide, x)) == reading("Tensor.__bool__", 1, ())


def test_iterating_sends_the_tensor_once_to_where_tensorflow_computes():
    x = matrix()
    assert recorded(list, x) == reading("Tensor.__iter__")
    assert recorded(lambda: in_scope(list, x)) == []


@pytest.mark.parametrize(
    ("move", "expected"),
    [
        (tf.identity, sending("tf.identity")),
        (lambda x: tf.identity_n([x, x]), sending("tf.identity_n")),
        (lambda x: tf.raw_ops.Identity(input=x), sending("tf.raw_ops.Identity")),
        (lambda x: tf.raw_ops.DeepCopy(x=x), sending("tf.raw_ops.DeepCopy")),
        (lambda x: tf.raw_ops.Snapshot(input=x), sending("tf.raw_ops.Snapshot")),
        (lambda x: x._copy(), sending("Tensor._copy")),
        (lambda x: tf.identity(x[:, 1]), sending("Tensor.__getitem__")),
        (lambda x: tf.reshape(x, (3, 2)), sending("tf.reshape")),
        (lambda x: tf.cast(x, tf.float16), sending("tf.cast")),
        (lambda x: tf.Variable(x + x), sending("Tensor.__add__")),
        (lambda x: tf.stack([x, x]), sending("tf.stack")),
        (tf.convert_to_tensor, []),
        (tf.constant, []),
        (copy.copy, []),
        (copy.deepcopy, []),
        (lambda x: x.shape, []),
    ],
)
def test_moving_is_reported_by_every_spelling(move, expected):
    x = matrix("cpu")
    assert recorded(lambda: in_scope(move, x)) == expected


def test_reading_back_by_cpu_is_reported():
    assert recorded(lambda x: x.cpu(), matrix()) == reading("Tensor.cpu")


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: tf.constant(VALUES), sending("tf.constant")),
        (lambda: tf.constant([1.0, 2.0]), sending("tf.constant", 8, (2,))),
        (lambda: tf.constant([True, False]), sending("tf.constant", 2, (2,))),
        (lambda: tf.constant(VALUES, tf.float64), None),
        (lambda: tf.convert_to_tensor(VALUES[:0]), sending("tf.convert_to_tensor", 0, (0, 3))),
        (lambda: tf.cast(VALUES, tf.float16), sending("tf.cast")),
        (lambda: tf.Variable(VALUES), sending("Variable.__init__")),
        (lambda: tf.ones((3, 2)) @ VALUES, sending("Tensor.__matmul__")),
        (lambda: tf.raw_ops.Neg(x=VALUES), sending("tf.raw_ops.Neg")),
        (lambda: tf.ones(3) * [1.0, 2.0, 3.0], sending("Tensor.__mul__", 12, (3,))),
        (lambda: tf.ones((2, 3)), []),
        (lambda: tf.random.normal((2, 3)), []),
        (lambda: tf.ones(3) * 2.0 + np.float32(1), []),
        (lambda: tf.constant(2.0), []),
        (lambda: tf.constant(["a", "b"]), []),
        (lambda: tf.constant([1, 2]), sending("tf.constant", 8, (2,))),
    ],
)
def test_values_of_the_host_that_go_to_a_device_are_reported(make, expected):
    if expected is None:
        expected = sending("tf.constant", 48)
    assert recorded(lambda: in_scope(make)) == expected
    assert recorded(make) == []
