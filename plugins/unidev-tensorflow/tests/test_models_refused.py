"""Models that cannot be moved, moves that fail, and functions that a move leaves behind."""

import warnings

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


@pytest.mark.parametrize("step", ["twin", "swap", "finish"])
@pytest.mark.parametrize("error", [tf.errors.ResourceExhaustedError, KeyboardInterrupt])
def test_a_failure_half_way_leaves_all_where_it_was(step, error, monkeypatch):
    model = keras.Sequential([keras.Input((2,)), dense("a"), dense("b")])
    model.compile("adam", "mse")
    x = np.ones((2, 2), "float32")
    model.fit(x, x, verbose=0)
    variables = [*model.variables, *model.optimizer.variables]
    held = [(v.value._handle, v.value.numpy().tolist()) for v in variables]
    calls = []
    original = getattr(TensorFlowModels, step)

    def fail(*arguments):
        calls.append(1)
        if len(calls) == (1 if step == "finish" else 3):
            raise error() if error is KeyboardInterrupt else error(None, None, "OOM")
        return original(*arguments)

    monkeypatch.setattr(TensorFlowModels, step, fail)
    expected = error if error is KeyboardInterrupt else unidev.OutOfDeviceMemoryError
    with pytest.raises(expected):
        unidev.place(model, "gpu:1")
    assert calls
    now = [(v.value._handle, v.value.numpy().tolist()) for v in variables]
    assert all(a[0] is b[0] and a[1] == b[1] for a, b in zip(now, held, strict=True))
    monkeypatch.undo()
    unidev.place(model, "gpu:1")
    model.fit(x, x, verbose=0)


def test_a_function_traced_before_is_warned_of_once_and_by_name():
    layer = dense()

    @tf.function
    def predict_prices(x):
        return layer(x)

    @tf.function
    def of_another_model(x):
        return x + 1.0

    x = tf.ones((1, 2))
    predict_prices(x)
    of_another_model(x)
    with pytest.warns(UserWarning, match="predict_prices") as caught:
        unidev.place(layer, "gpu:1")
    assert len(caught) == 1
    assert "of_another_model" not in str(caught[0].message)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        unidev.place(layer, "gpu:2")

    layer.kernel.assign(layer.kernel * 0)
    assert predict_prices(x).numpy().any()  # it is stale indeed
    again = tf.function(predict_prices.python_function)
    assert not again(x).numpy().any()


def test_a_function_that_was_not_called_yet_is_not_warned_of():
    layer = dense()

    @tf.function(input_signature=[tf.TensorSpec((None, 2))])
    def later(x):
        return layer(x)

    unidev.place(layer, "gpu:1")
    layer.kernel.assign(layer.kernel * 0)
    assert not later(tf.ones((1, 2))).numpy().any()


def test_a_warning_that_is_an_error_leaves_the_model_where_it_was():
    layer = dense()

    @tf.function
    def traced(x):
        return layer(x)

    traced(tf.ones((1, 2)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="still use its old memory"):
            unidev.place(layer, "gpu:1")
    assert unidev.device_of(layer) is unidev.cpu()


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
