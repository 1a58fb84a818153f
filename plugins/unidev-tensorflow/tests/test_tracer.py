"""What TensorFlow moves is told: each movement once, by the user's call, with its bytes."""

import copy
import io
import pickle

import numpy as np
import pytest
import tensorflow as tf
from told import telling, told_by

import unidev
from unidev_tensorflow.tracer_operations import CONFLICT, Operations
from unidev_tensorflow.tracer_sight import Sight

VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)


def on(device, values=VALUES):
    return unidev.array(values, device=device)


def matrix(device="gpu:0"):
    """Six floats: 24 bytes."""
    return on(device)


def number(device="gpu:0"):
    """One float: 4 bytes."""
    return on(device, np.float32(2.0))


def whole(device="gpu:0"):
    """One int64: 8 bytes."""
    return on(device, np.int64(1))


def variable(device="gpu:0"):
    with unidev.as_device(device):
        return tf.Variable(VALUES)


def reading(operation, nbytes=24, shape=(2, 3)):
    return [(operation, "gpu:0", "cpu:0", nbytes, shape)]


def sending(operation, nbytes=24, shape=(2, 3)):
    return [(operation, "cpu:0", "gpu:0", nbytes, shape)]


def in_scope(function, *arguments, device="gpu:0"):
    with unidev.as_device(device):
        return function(*arguments)


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

    assert told_by(script) == [
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
def test_reading_is_told_by_the_call_that_reads(read, operation):
    assert told_by(read, number()) == reading(operation, 4, ())
    assert told_by(read, number("cpu")) == []


def test_reading_again_moves_again():
    x = number()
    assert told_by(lambda: [float(x) for _ in range(3)]) == 3 * reading("Tensor.__float__", 4, ())


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
    assert told_by(read, whole()) == expected
    assert told_by(read, whole("cpu")) == []


def test_a_condition_reads_what_was_computed():
    def decide(x):
        return 1 if x > 0 else 2

    x = number()
    assert told_by(lambda: in_scope(decide, x)) == reading("Tensor.__bool__", 1, ())


def test_iterating_sends_the_tensor_once_to_where_tensorflow_computes():
    x = matrix()
    assert told_by(list, x) == reading("Tensor.__iter__")
    assert told_by(lambda: in_scope(list, x)) == []


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
def test_moving_is_told_by_every_spelling(move, expected):
    x = matrix("cpu")
    assert told_by(lambda: in_scope(move, x)) == expected


def test_reading_back_by_cpu_is_told():
    assert told_by(lambda x: x.cpu(), matrix()) == reading("Tensor.cpu")


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
def test_values_of_the_host_that_go_to_a_device_are_told(make, expected):
    if expected is None:
        expected = sending("tf.constant", 48)
    assert told_by(lambda: in_scope(make)) == expected
    assert told_by(make) == []


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
def test_operands_that_are_moved_silently_are_told(compute, operation):
    x, y = matrix(), matrix("cpu")
    assert told_by(compute, x, y) == reading(f"{operation} of mixed operands")


def test_all_operands_that_move_are_told_each_once():
    x, other, y = matrix(), matrix("gpu:1"), matrix("cpu")
    assert told_by(tf.add_n, [x, y, other, x]) == [
        ("tf.add_n of mixed operands", "gpu:0", "cpu:0", 24, (2, 3)),
        ("tf.add_n of mixed operands", "gpu:1", "cpu:0", 24, (2, 3)),
    ]


def test_operands_that_are_together_move_where_tensorflow_computes_outside_a_scope():
    assert told_by(lambda x: x * x, matrix()) == reading("Tensor.__mul__")
    assert told_by(lambda x: 1.0 - x, matrix()) == reading("Tensor.__rsub__")
    assert told_by(tf.reduce_sum, matrix()) == reading("tf.reduce_sum")
    assert told_by(tf.nn.relu, matrix("cpu")) == []


def test_what_tensorflow_keeps_beside_a_tensor_is_told_once_in_a_scope():
    x = matrix()
    assert told_by(lambda: [x + 1.0 for _ in range(3)]) == reading("Tensor.__add__")
    assert told_by(lambda: x + 1.0) == reading("Tensor.__add__")
    assert told_by(lambda: [matrix() + 1.0 for _ in range(3)])[-1:] == reading("Tensor.__add__")


def test_variables_are_told():
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
        assert told_by(use) == expected


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (5, 1)])
@pytest.mark.parametrize("dtype", ["float16", "float32", "int64", "bool", "complex128", "uint8"])
def test_every_shape_and_dtype_counts_its_bytes(shape, dtype):
    x = on("gpu:0", np.zeros(shape, dtype))
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    assert told_by(x.numpy) == reading("Tensor.numpy", size, shape)
    assert told_by(tf.identity, x) == reading("tf.identity", size, shape)


def test_int32_is_told_where_a_user_reads_or_makes_it_and_not_as_a_shape_or_an_axis():
    with unidev.gpu(0):
        x, count = matrix(), tf.constant(2)
    assert told_by(int, count) == reading("Tensor.__int__", 4, ())
    assert told_by(tf.identity, count) == reading("tf.identity", 4, ())

    def compute():
        tf.linspace(0.0, 1.0, count)
        tf.reshape(x, [3, count])
        tf.boolean_mask(x, x > 2)
        return tf.reduce_sum(tf.nn.softmax(x[:, 1:]), axis=[0, 1])

    assert [told for told in told_by(lambda: in_scope(compute)) if told[3] < 8] == []


def test_a_slice_moves_its_own_bytes():
    with unidev.gpu(0):
        part = matrix()[:, 1:]
    assert told_by(part.numpy) == reading("Tensor.numpy", 16, (2, 2))


def test_composite_tensors_are_told_by_their_parts():
    with unidev.gpu(0):
        sparse = tf.sparse.from_dense(matrix())
    assert [rest for _, *rest in told_by(tf.sparse.to_dense, sparse)] == [
        ["gpu:0", "cpu:0", 80, (5, 2)],
        ["gpu:0", "cpu:0", 16, (2,)],
        ["gpu:0", "cpu:0", 20, (5,)],
    ]


def test_gradients_that_cross_devices_are_told():
    x = matrix()

    def train():
        with tf.GradientTape() as tape:
            tape.watch(x)
            with tf.device("/CPU:2"):
                loss = tf.reduce_sum(tf.square(tf.identity(x)))
        return in_scope(tape.gradient, loss, x)

    assert told_by(train) == [
        ("tf.identity", "gpu:0", "gpu:1", 24, (2, 3)),
        ("GradientTape.gradient", "gpu:1", "gpu:0", 24, (2, 3)),
    ]


def test_training_on_one_device_tells_nothing():
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

    assert told_by(lambda: in_scope(train)) == []


def test_an_optimizer_that_works_elsewhere_moves_what_it_updates():
    v = tf.keras.Variable(VALUES)
    optimizer = tf.keras.optimizers.SGD(0.1)
    optimizer.build([v])
    gradient = matrix()
    assert told_by(optimizer.apply, [gradient], [v]) == reading("SGD.apply")


def test_in_graphs_nothing_is_told():
    x, y = matrix(), matrix("cpu")
    add = tf.function(lambda a, b: a + b)
    assert told_by(add, x, y) == []
    with telling() as told:
        assert float(add(x, y)[0, 1]) == 2.0
    assert told == []


def test_what_unidev_moves_is_told_by_what_it_calls_and_arrives():
    x = matrix()
    with telling() as told:
        y = unidev.copy_to(x, "gpu:1")
    assert told == [("DeepCopy", "gpu:0", "gpu:1", 24, (2, 3))]
    assert unidev.device_of(y) is unidev.gpu(1)


def test_each_blind_spot_has_its_reason():
    for what, why in unidev.active_backend().tracer.blind_spots.items():
        assert what
        assert why


class Hardware:
    """A backend of a machine with real GPUs, as far as the tracer asks it."""

    simulated_count = 0
    cpu = "cpu:0"

    def device(self, kind, index):
        return f"{kind}:{index}"

    def device_count(self, _):
        return 2

    def parse_native(self, spec):
        parsed = tf.DeviceSpec.from_string(spec)
        return parsed.device_type.lower(), parsed.device_index


def test_on_real_gpus_tensorflow_says_what_moves_and_int32_stays_on_the_host():
    operations = Operations(Sight(Hardware()))
    local = "/job:localhost/replica:0/task:0/device:"
    said = (
        f"Tensors on conflicting devices: cannot compute GatherV2 as input #0 was expected to be "
        f"on {local}GPU:1 but is actually on {local}CPU:0 (operation running on {local}GPU:1) "
        f"Tensors can be copied explicitly"
    )
    x, whole_numbers, fraction = tf.ones(3), tf.constant([1, 2]), tf.constant(0.5)
    ways = operations._ways([x, whole_numbers, fraction], CONFLICT.match(said))
    assert [(id(x), *way) for x, *way in ways] == [
        (id(x), "cpu:0", "gpu:1"),
        (id(fraction), "cpu:0", "gpu:1"),
    ]
    ways = operations._ways([whole_numbers, x], CONFLICT.match(said))  # named, so it does move
    assert next(ways)[1:] == ("cpu:0", "gpu:1")
    assert Sight(Hardware()).default(None) == "gpu:0"
    assert Sight(Hardware()).device_read(whole_numbers, is_direct=True) == "cpu:0"
