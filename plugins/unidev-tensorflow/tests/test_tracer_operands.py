"""Operands that TensorFlow moves silently, odd tensors, gradients, and what is not seen."""

import numpy as np
import pytest
import tensorflow as tf
from traced import (
    TRACER,
    VALUES,
    in_scope,
    matrix,
    on,
    reading,
    recorded,
    recording,
    sending,
    variable,
)

import unidev
from unidev_tensorflow.tracer.operations import CONFLICT, Operations
from unidev_tensorflow.tracer.transfers import Sight


@pytest.mark.parametrize(
    ("compute", "operation"),
    [
        (lambda x, y: x + y, "Tensor.__add__"),
        (lambda x, y: y + x, "Tensor.__add__"),
        (lambda x, y: x - y, "Tensor.__sub__"),
        (lambda x, y: x * y, "Tensor.__mul__"),
        (lambda x, y: x == y, "Tensor.__eq__"),
        (lambda x, y: x > y, "tf.greater"),
        (lambda x, y: x @ tf.transpose(y), "Tensor.__matmul__"),
        (lambda x, y: tf.matmul(x, y, transpose_b=True), "tf.matmul"),
        (lambda x, y: tf.concat([y, x], 0), "tf.concat"),
        (lambda x, y: tf.stack([y, x]), "tf.stack"),
        (lambda x, y: tf.where(y > 2, x, y), "tf.where"),
        (tf.maximum, "tf.maximum"),
        (tf.keras.ops.add, "tf.add"),
    ],
)  # fmt: skip
def test_operands_that_are_moved_silently_are_reported(compute, operation):
    x, y = matrix(), matrix("cpu")
    assert recorded(compute, x, y) == reading(f"{operation} of mixed operands")


def test_all_operands_that_move_are_reported_each_once():
    x, other, y = matrix(), matrix("gpu:1"), matrix("cpu")
    assert recorded(tf.add_n, [x, y, other, x]) == [
        ("tf.add_n of mixed operands", "gpu:0", "cpu:0", 24, (2, 3)),
        ("tf.add_n of mixed operands", "gpu:1", "cpu:0", 24, (2, 3)),
    ]


def test_an_array_beside_an_operand_of_elsewhere_is_reported_with_it():
    def multiply():
        return tf.raw_ops.Mul(x=x, y=VALUES)

    x = matrix("gpu:1")
    assert recorded(lambda: in_scope(multiply)) == [
        *sending("tf.raw_ops.Mul"),
        ("tf.raw_ops.Mul", "gpu:1", "gpu:0", 24, (2, 3)),
    ]


def test_operands_that_are_together_move_where_tensorflow_computes_outside_a_scope():
    assert recorded(lambda x: x * x, matrix()) == reading("Tensor.__mul__")
    assert recorded(lambda x: 1.0 - x, matrix()) == reading("Tensor.__rsub__")
    assert recorded(tf.reduce_sum, matrix()) == reading("tf.reduce_sum")
    assert recorded(tf.nn.relu, matrix("cpu")) == []


def test_what_tensorflow_keeps_beside_a_tensor_is_reported_once_in_a_scope():
    x = matrix()
    assert recorded(lambda: [x + 1.0 for _ in range(3)]) == reading("Tensor.__add__")
    assert recorded(lambda: x + 1.0) == reading("Tensor.__add__")
    assert recorded(lambda: [matrix() + 1.0 for _ in range(3)])[-1:] == reading("Tensor.__add__")


def test_variables_are_reported():
    v, x, y = variable(), matrix(), matrix("cpu")
    for use, expected in [
        (v.numpy, reading("Variable.numpy")),
        (v.read_value, reading("Variable.read_value")),
        (lambda: str(v), reading("Variable.__repr__")),
        (lambda: v[0, 0], reading("Variable.__getitem__")),
        (lambda: v + 1.0, reading("Tensor.__add__")),
        (lambda: tf.matmul(y, v, transpose_b=True), reading("tf.matmul of mixed operands")),
        (lambda: v.assign(y), sending("Variable.assign")),
        (lambda: v.assign(VALUES), sending("Variable.assign")),
        (lambda: v.assign_add(matrix("cpu")), sending("Variable.assign_add")),
        (lambda: v.assign(x), []),
        (lambda: in_scope(lambda: v + v), []),
    ]:
        assert recorded(use) == expected


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (5, 1)])
@pytest.mark.parametrize("dtype", ["float16", "float32", "int64", "bool", "complex128", "uint8"])
def test_every_shape_and_dtype_counts_its_bytes(shape, dtype):
    x = on("gpu:0", np.zeros(shape, dtype))
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    assert recorded(x.numpy) == reading("Tensor.numpy", size, shape)
    assert recorded(tf.identity, x) == reading("tf.identity", size, shape)


def test_int32_is_reported_where_a_user_reads_or_makes_it_and_not_as_a_shape_or_an_axis():
    with unidev.gpu(0):
        x, count = matrix(), tf.constant(2)
    assert recorded(int, count) == reading("Tensor.__int__", 4, ())
    assert recorded(tf.identity, count) == reading("tf.identity", 4, ())

    def compute():
        tf.linspace(0.0, 1.0, count)
        tf.reshape(x, [3, count])
        tf.boolean_mask(x, x > 2)
        return tf.reduce_sum(tf.nn.softmax(x[:, 1:]), axis=[0, 1])

    assert [each for each in recorded(lambda: in_scope(compute)) if each[3] < 8] == []


def test_a_slice_moves_its_own_bytes():
    with unidev.gpu(0):
        part = matrix()[:, 1:]
    assert recorded(part.numpy) == reading("Tensor.numpy", 16, (2, 2))


def test_composite_tensors_are_reported_by_their_parts():
    with unidev.gpu(0):
        sparse = tf.sparse.from_dense(matrix())
    assert [rest for _, *rest in recorded(tf.sparse.to_dense, sparse)] == [
        ["gpu:0", "cpu:0", 80, (5, 2)],
        ["gpu:0", "cpu:0", 16, (2,)],
        ["gpu:0", "cpu:0", 20, (5,)],
    ]


def test_gradients_that_cross_devices_are_reported():
    x = matrix()

    def train():
        with tf.GradientTape() as tape:
            tape.watch(x)
            with tf.device("/CPU:2"):
                loss = tf.reduce_sum(tf.square(tf.identity(x)))
        return in_scope(tape.gradient, loss, x)

    assert recorded(train) == [
        ("tf.identity", "gpu:0", "gpu:1", 24, (2, 3)),
        ("GradientTape.gradient", "gpu:1", "gpu:0", 24, (2, 3)),
    ]


def test_training_on_one_device_reports_nothing():
    with unidev.gpu(0):
        model = tf.keras.Sequential([
            tf.keras.layers.Dense(4, activation="relu"), tf.keras.layers.BatchNormalization(),
            tf.keras.layers.Dense(1),
        ])  # fmt: skip
        x, y = matrix(), unidev.ones((2, 1))
        model(x)
        optimizer = tf.keras.optimizers.Adam(0.01)
        optimizer.build(model.trainable_variables)

    def train():
        for _ in range(2):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    assert recorded(lambda: in_scope(train)) == []


def test_an_optimizer_that_works_elsewhere_moves_what_it_updates():
    v = tf.keras.Variable(VALUES)
    optimizer = tf.keras.optimizers.SGD(0.1)
    optimizer.build([v])
    gradient = matrix()
    assert recorded(optimizer.apply, [gradient], [v]) == reading("SGD.apply")


def test_in_graphs_nothing_is_reported():
    x, y = matrix(), matrix("cpu")
    add = tf.function(lambda a, b: a + b)
    assert recorded(add, x, y) == []
    with recording() as found:
        assert float(add(x, y)[0, 1]) == 2.0
    assert found == []


def test_what_unidev_moves_is_reported_by_what_it_calls_and_arrives():
    x = matrix()
    with recording() as found:
        y = unidev.copy_to(x, "gpu:1")
    assert found == [("Tensor._copy", "gpu:0", "gpu:1", 24, (2, 3))]
    assert unidev.device_of(y) is unidev.gpu(1)


def test_each_blind_spot_has_its_reason():
    for what, why in unidev.active_backend().tracer.blind_spots.items():
        assert what
        assert why


class Hardware:
    """A backend of a machine with real GPUs: what the tracer uses of it."""

    simulated_count = 0
    cpu = "cpu:0"

    def device(self, kind, index):
        return f"{kind}:{index}"

    def device_count(self, _):
        return 2

    def parse_native(self, spec):
        parsed = tf.DeviceSpec.from_string(spec)
        return parsed.device_type.lower(), parsed.device_index


def test_on_real_gpus_tensorflow_names_what_moves_and_int32_stays_on_the_host():
    operations = Operations(Sight(Hardware()), TRACER.recording)
    local = "/job:localhost/replica:0/task:0/device:"
    message = (
        f"Tensors on conflicting devices: cannot compute GatherV2 as input #0 was expected to be "
        f"on {local}GPU:1 but is actually on {local}CPU:0 (operation running on {local}GPU:1) "
        f"Tensors can be copied explicitly"
    )
    x, integers, fraction = tf.ones(3), tf.constant([1, 2]), tf.constant(0.5)
    ways = operations._ways([x, integers, fraction], CONFLICT.match(message))
    assert [(id(x), *way) for x, *way in ways] == [
        (id(x), "cpu:0", "gpu:1"),
        (id(fraction), "cpu:0", "gpu:1"),
    ]
    ways = operations._ways([integers, x], CONFLICT.match(message))  # named, so it does move
    assert next(ways)[1:] == ("cpu:0", "gpu:1")
    assert Sight(Hardware()).default(None) == "gpu:0"
    assert Sight(Hardware()).device_read(integers, is_direct=True) == "cpu:0"
