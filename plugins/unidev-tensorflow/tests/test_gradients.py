"""Gradients of variables, across devices, of lookups, and beside the program's own tapes."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from turns import in_threads

import unidev
from unidev.nn import functional as F


def on(device, values):
    return unidev.array(values, device=device)


def half_square(x):
    with unidev.device_of(x):
        return tf.reduce_sum(x * x) / 2


def test_a_step_changes_variables_in_place_and_gives_new_tensors():
    with unidev.gpu(1):
        variable, of_keras = tf.Variable([1.0, 2.0]), keras.Variable([1.0, 2.0])
    plain = on("gpu:1", [1.0, 2.0])
    parameters = {"variable": variable, "keras": of_keras, "plain": plain}
    loss, slopes = unidev.value_and_grad(
        lambda p: tf.add_n([half_square(tf.convert_to_tensor(x)) for x in p.values()])
    )(parameters)
    assert float(loss) == 7.5
    stepped = unidev.sgd(parameters, slopes, lr=0.5)
    assert stepped["variable"] is variable
    assert stepped["keras"] is of_keras
    assert stepped["plain"] is not plain
    for x in stepped.values():
        assert unidev.to_numpy(x).tolist() == [0.5, 1.0]
        assert unidev.device_of(x) is unidev.gpu(1)
    assert plain.numpy().tolist() == [1.0, 2.0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_a_step_keeps_the_dtype(dtype):
    x = unidev.array([1.0, 2.0], dtype=dtype)
    variable = tf.Variable(x)
    for parameter in (x, variable):
        stepped = unidev.sgd(parameter, unidev.ones_like(x), lr=0.5)
        assert stepped.dtype == x.dtype
        assert unidev.to_numpy(stepped).astype("float32").tolist() == [0.5, 1.5]


@pytest.mark.parametrize("variable", [tf.Variable, keras.Variable])
def test_a_step_leaves_a_loss_that_is_the_variable(variable):
    x = variable([3.0])
    loss, slope = unidev.value_and_grad(lambda x: x)(x)
    unidev.sgd(x, slope, lr=1.0)
    assert (float(loss[0]), float(x[0])) == (3.0, 2.0)


def test_the_loss_is_computed_where_the_parameters_are():
    seen = []

    def loss_of(x):
        y = x * 2.0  # in no scope of its own
        seen.append(unidev.device_of(y))
        return tf.reduce_sum(y)

    loss, slope = unidev.value_and_grad(loss_of)(on("gpu:2", [1.0]))
    assert seen == [unidev.gpu(2)]
    assert unidev.device_of(loss) is unidev.device_of(slope) is unidev.gpu(2)


def test_the_gradient_of_a_lookup_comes_dense():
    with unidev.gpu(1):
        layer = keras.layers.Embedding(5, 2)
        layer.build((None,))
    rows = on("gpu:1", [1, 3, 3])
    loss_of = unidev.value_and_grad(lambda layer: tf.reduce_sum(layer(rows)))
    _, slopes = loss_of(layer)
    (slope,) = slopes.values()
    assert isinstance(slope, tf.Tensor)
    assert unidev.device_of(slope) is unidev.gpu(1)
    assert slope.numpy().tolist() == [[0, 0], [1, 1], [0, 0], [2, 2], [0, 0]]
    before = layer.embeddings.numpy()
    unidev.sgd(layer, slopes, lr=1.0)
    np.testing.assert_array_equal(layer.embeddings.numpy(), before - slope.numpy())


def test_ragged_and_sparse_tensors_are_refused_by_name():
    for x in (tf.ragged.constant([[1.0], []]), tf.sparse.from_dense([[0.0, 1.0]])):
        with pytest.raises(unidev.UnsupportedOperation, match="respect to its values"):
            unidev.value_and_grad(lambda x: tf.reduce_sum(x.values))(x)


def test_a_variable_of_integers_has_no_gradient():
    class Counting(tf.Module):
        def __init__(self):
            self.count, self.scale = tf.Variable([1, 2]), tf.Variable([1.0, 2.0])

    model = Counting()
    _, slopes = unidev.value_and_grad(lambda model: tf.reduce_sum(model.scale))(model)
    assert list(slopes) == ["scale"]
    assert unidev.sgd(model, slopes, lr=0.5).scale.numpy().tolist() == [0.5, 1.5]


def test_a_tape_round_it_sees_neither_the_loss_nor_the_gradients():
    x = tf.Variable([2.0])
    with tf.GradientTape(persistent=True) as tape:
        loss, slope = unidev.value_and_grad(lambda x: tf.reduce_sum(x * x))(x)
        outer = loss * slope * x
    assert tape.gradient(outer, x).numpy().tolist() == [16.0]


def test_threads_have_gradients_of_their_own():
    found = {}

    def work(index):
        x = on(f"gpu:{index}", np.full(1000, float(index + 1), "float32"))
        for _ in range(20):
            loss, slope = unidev.value_and_grad(half_square)(x)
        found[index] = float(loss), unidev.device_of(slope), float(slope[0])

    in_threads(work, range(4))
    assert found == {
        index: ((index + 1) ** 2 * 500.0, unidev.gpu(index), index + 1.0) for index in range(4)
    }


def test_a_net_by_hand_learns_inside_a_tf_function():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((64, 1, 6, 6)).astype("float32")
    labels = (x.mean((1, 2, 3)) > 0).astype("int64")
    kernel = tf.Variable(rng.standard_normal((2, 1, 3, 3)).astype("float32") * 0.3)
    weight = tf.Variable(rng.standard_normal((2, 8)).astype("float32") * 0.3)

    def loss_of(x, labels):
        y = F.avg_pool2d(F.tanh(F.conv2d(x, kernel)), 2)
        return F.softmax_cross_entropy(F.linear(tf.reshape(y, (-1, 8)), weight), labels)

    @tf.function
    def step(x, labels):
        with tf.GradientTape() as tape:
            loss = loss_of(x, labels)
        for variable, slope in zip((kernel, weight), tape.gradient(loss, (kernel, weight))):  # noqa: B905
            variable.assign_sub(0.5 * slope)
        return loss

    losses = [float(step(x, labels)) for _ in range(30)]
    assert losses[-1] < losses[0] * 0.8
