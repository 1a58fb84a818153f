"""Models that cannot be moved, moves that fail, and functions that a move leaves behind."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import unidev
from unidev_tensorflow.models import TensorFlowModels


def dense(name="dense"):
    layer = keras.layers.Dense(2, name=name)
    layer.build((None, 2))
    return layer


def test_mirrored_variables_are_refused():
    with tf.distribute.MirroredStrategy(["/CPU:1", "/CPU:2"]).scope():
        layer = dense()
        module = tf.Module()
        module.weight = tf.Variable(1.0)
    for model in (layer, module):
        with pytest.raises(unidev.UnsupportedOperation, match=r"strategy\.scope"):
            unidev.place(model, "gpu:1")


@pytest.mark.parametrize(
    "make",
    [
        lambda: keras.Sequential([keras.layers.Dense(2)]),
        lambda: keras.layers.Dense(2),
        lambda: keras.layers.TimeDistributed(keras.layers.Dense(2)),
    ],
)
def test_an_unbuilt_model_is_refused_with_what_to_do(make):
    with pytest.raises(unidev.UnsupportedOperation, match="call it once with a batch"):
        unidev.place(make(), "gpu:1")


def test_an_unbuilt_model_built_within_a_device_is_there():
    model = keras.Sequential([keras.layers.Dense(2)])
    with unidev.gpu(1):
        model(np.ones((1, 2), "float32"))
    assert unidev.device_of(model) is unidev.gpu(1)


def test_layers_without_variables_are_anywhere_already():
    for layer in (keras.layers.ReLU(), keras.layers.Flatten(), keras.layers.MaxPooling2D()):
        assert unidev.place(layer, "gpu:1") is layer


def test_a_variable_with_a_cache_is_refused():
    module = tf.Module()
    module.weight = tf.Variable(1.0)
    # Eager variables get one within tf.compat.v1.variable_scope alone.
    module.weight._caching_device = "/CPU:0"
    with pytest.raises(unidev.UnsupportedOperation, match="caching_device"):
        unidev.place(module, "gpu:1")


def test_a_function_traced_before_traces_again_after_a_move():
    layer = dense()
    traces = []

    @tf.function
    def predict_prices(x):
        traces.append(x)
        return layer(x)

    @tf.function
    def of_another_model(x):
        traces.append(x)
        return x + 1.0

    x = tf.ones((1, 2))
    expected = predict_prices(x).numpy()
    of_another_model(x)
    assert expected.any()
    for device in ("gpu:1", "gpu:1", "gpu:2"):
        unidev.place(layer, device)
        with unidev.as_device(device):
            assert (predict_prices(x).numpy() == expected).all()
            of_another_model(x)
    layer.kernel.assign(layer.kernel * 0)
    assert not predict_prices(x).numpy().any()
    assert len(traces) == 3 + 1  # of_another_model: once


def test_a_function_that_was_not_called_yet_is_as_any_other():
    layer = dense()

    @tf.function(input_signature=[tf.TensorSpec((None, 2))])
    def later(x):
        return layer(x)

    unidev.place(layer, "gpu:1")
    layer.kernel.assign(layer.kernel * 0)
    assert not later(tf.ones((1, 2))).numpy().any()


def test_a_move_that_fails_leaves_a_function_its_traces(monkeypatch):
    layer = dense()
    traces = []

    @tf.function
    def traced(x):
        traces.append(x)
        return layer(x)

    traced(tf.ones((1, 2)))

    def fail(*_):
        raise ValueError("the last step")

    monkeypatch.setattr(TensorFlowModels, "finish", fail)
    with pytest.raises(unidev.FrameworkError, match="the last step"):
        unidev.place(layer, "gpu:1")
    assert unidev.device_of(layer) is unidev.cpu()
    layer.kernel.assign(layer.kernel * 0)
    assert not traced(tf.ones((1, 2))).numpy().any()
    assert len(traces) == 1


def test_within_a_tape_and_a_graph_a_model_moves_as_elsewhere():
    layer = dense()
    with tf.GradientTape() as tape:
        unidev.place(layer, "gpu:1")
        loss = tf.reduce_sum(layer(tf.ones((1, 2))))
    assert tape.gradient(loss, layer.bias.value).numpy().tolist() == [1.0, 1.0]

    @tf.function
    def move():
        unidev.place(layer, "gpu:2")
        return 1

    move()
    assert unidev.device_of(layer) is unidev.gpu(2)
    assert layer.bias.numpy().tolist() == [0.0, 0.0]
