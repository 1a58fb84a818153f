"""The tracer's scope: nothing before, nothing after, nothing for others; and what works inside."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import op_callbacks
from traced import TRACER, Forbidden, forbidding, matrix, recording

import unidev

SCRIPT_ON_ONE_DEVICE = """
import tensorflow as tf
import unidev
from tensorflow.python import pywrap_tfe

original = pywrap_tfe.TFE_Py_FastPathExecute
with unidev.active_backend().tracer.watch(lambda moved: print(moved), lambda _: None):
    assert pywrap_tfe.TFE_Py_FastPathExecute is original
    assert float(tf.ones(2)[0]) == 1.0
print("done")
"""


def quietly():
    return TRACER.watch(lambda _: None, lambda _: None)


def state():
    """All that a scope could leave behind, in this thread and in the process."""
    with quietly():
        patched = TRACER.patches.attributes()
    assert len(patched) > 10
    return [vars(owner).get(name, "none") for owner, name in patched]


@pytest.fixture(autouse=True)
def _everything_is_as_it_was():
    before, policy = state(), tf.config.experimental.get_device_policy()
    yield
    after = state()
    assert all(one is other for one, other in zip(before, after, strict=True))
    assert tf.config.experimental.get_device_policy() == policy
    assert TRACER.patches.attributes() == []


# -- begin may raise ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "move",
    [
        lambda x, _: x.numpy(),
        lambda x, _: float(x[0, 0]),
        lambda x, _: np.asarray(x),
        lambda x, _: np.sum(x),
        lambda x, _: str(x),
        lambda x, _: x.cpu(),
        lambda x, _: list(x),
        lambda x, y: x + y,
        lambda x, y: y - x,
        lambda x, y: tf.concat([y, x], 0),
        lambda x, _: tf.identity(x),
        lambda x, _: tf.reshape(x, (3, 2)),
        lambda x, _: tf.keras.layers.ReLU()(x),
        lambda x, y: tf.keras.layers.Add()([x, y]),
        lambda x, _: tf.Variable(x * 2.0),
        lambda x, _: tf.map_fn(lambda row: row, x),
    ],
)
def test_what_begin_raises_reaches_the_user_as_it_is(move):
    x, y = matrix(), matrix("cpu")
    raised = []

    def begin(moved):
        raised.append(Forbidden(moved.operation))
        raise raised[-1]

    with pytest.raises(Forbidden) as caught, TRACER.watch(begin, lambda _: None):
        move(x, y)
    assert caught.value is raised[-1]
    assert caught.value.__cause__ is None
    assert len(raised) == 1


@pytest.mark.parametrize("error", [TypeError, ValueError, NotImplementedError, KeyboardInterrupt])
def test_errors_of_any_kind_reach_the_user(error):
    x = matrix()

    def begin(_):
        raise error("not here")

    with pytest.raises(error, match="not here"), TRACER.watch(begin, lambda _: None):
        x.numpy()
    with pytest.raises(error, match="not here"), TRACER.watch(begin, lambda _: None):
        tf.identity(x)


def test_what_is_forbidden_has_not_happened():
    v, x = tf.Variable(tf.zeros((2, 3))), matrix()
    for move in (v.assign, v.assign_add, lambda x: v.assign(x + 1.0)):
        with pytest.raises(Forbidden), forbidding():
            move(x)
    assert not v.numpy().any()


def test_a_gradient_may_be_forbidden():
    x = matrix()
    with tf.GradientTape() as tape:
        tape.watch(x)
        with tf.device("/CPU:2"):
            loss = tf.reduce_sum(tf.identity(x) ** 2)
    with pytest.raises(Forbidden), forbidding():
        tape.gradient(loss, x)


# -- what works inside ----------------------------------------------------------------------------


def test_values_and_gradients_are_the_same_inside():
    def compute():
        x, y = matrix(), matrix("cpu")
        with tf.GradientTape() as outer:
            outer.watch([x, y])
            with tf.GradientTape() as tape:
                tape.watch([x, y])
                loss = tf.reduce_sum(tf.sin(x) * y**2 + tf.identity(x))
            first = tape.gradient(loss, [x, y])
            both = tf.add_n(first)
        return [t.numpy().tolist() for t in (loss, *first, *outer.gradient(both, [x, y]))]

    expected = compute()
    with quietly():
        assert compute() == expected


def test_forward_mode_runs_python_within_an_operation_and_is_reported():
    x, tangent = matrix(), matrix()
    other = matrix("cpu")
    with recording() as found, tf.autodiff.ForwardAccumulator(x, tangent) as forward:
        y = x * other
    assert found[0][1:4] == ("gpu:0", "cpu:0", 24)
    assert forward.jvp(y).numpy().tolist() == (tangent.numpy() * other.numpy()).tolist()


def test_python_within_an_operation_may_mix_devices():
    x, elsewhere = matrix(), matrix("cpu")

    def mix(_, __, ___, ____, *_____):
        sums.append(float((x + elsewhere)[1, 2]))

    sums = []
    op_callbacks.add_op_callback(once := _Once(mix))
    try:
        with recording() as found, unidev.gpu(0):
            tf.square(x)
    finally:
        op_callbacks.remove_op_callback(once)
    assert sums == [10.0]
    assert found == [
        ("Tensor.__add__ of mixed operands", "cpu:0", "gpu:0", 24, (2, 3)),
        ("Tensor.__float__", "gpu:0", "cpu:0", 4, ()),
    ]


class _Once:
    """A callback that is not called by what it calls."""

    def __init__(self, function):
        self.function = function

    def __call__(self, *arguments):
        function, self.function = self.function, lambda *_: None
        function(*arguments)


def test_a_users_device_policy_stays_in_force():
    x, y = matrix(), matrix("cpu")
    found = []
    tf.config.experimental.set_device_policy("explicit")
    try:
        with TRACER.watch(found.append, lambda _: None):
            with pytest.raises(tf.errors.InvalidArgumentError, match="conflicting devices"):
                x + y
            assert tf.config.experimental.get_device_policy() == "explicit"
            tf.config.experimental.set_device_policy("silent")
            assert found == []
            x + y
    finally:
        tf.config.experimental.set_device_policy("silent")
    assert [moved.operation for moved in found] == ["Tensor.__add__ of mixed operands"]


def test_graphs_datasets_and_fit_work_inside():
    x, y = np.ones((8, 3), np.float32), np.ones((8, 1), np.float32)
    with quietly():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        losses = model.fit(x, y, epochs=2, verbose=0).history["loss"]
        data = tf.data.Dataset.from_tensor_slices(x).batch(4)
        assert len(list(data)) == 2
        assert float(tf.function(tf.reduce_sum)(matrix())) == 15.0
        assert tf.py_function(lambda a: a * 2, [matrix()], tf.float32).numpy().sum() == 30
        assert tf.numpy_function(lambda a: a * 2, [matrix()], tf.float32).numpy().sum() == 30
    assert losses[1] < losses[0]


def test_a_strategy_runs_inside():
    strategy = tf.distribute.MirroredStrategy(["/CPU:0", "/CPU:1"])
    x = matrix("gpu:3")
    with quietly():
        sums = strategy.run(lambda: tf.reduce_sum(x + tf.ones((2, 3))))
    assert [float(part) for part in strategy.experimental_local_results(sums)] == [21.0, 21.0]


def test_numpy_takes_what_is_no_tensor_as_before():
    with quietly():
        assert np.array([1, 2]).tolist() == [1, 2]
        assert np.asarray([[1.0]], dtype=np.float16).dtype == np.float16
        assert np.array(object=[3]).tolist() == [3]
        assert np.sum([tf.constant(1.0), tf.constant(2.0)]) == 3
        assert isinstance(np.ones((2, 3), np.float32) + matrix(), tf.Tensor)
        with pytest.raises(TypeError):
            np.array()


def test_on_one_device_nothing_is_replaced(python):
    done = python(SCRIPT_ON_ONE_DEVICE, UNIDEV_BACKEND="tensorflow", CUDA_VISIBLE_DEVICES="")
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
