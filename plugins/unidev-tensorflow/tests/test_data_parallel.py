"""``DataParallel`` of Keras's models and ``tf.Module``s, compiled ones too, against one device."""

import gc
import random

import keras
import pytest
import tensorflow as tf
from training_checks import THREE, batch, check_training

import unidev


class Compiled(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.inner = keras.layers.Dense(2)

    def build(self, shape):
        self.inner.build(shape)

    @tf.function
    def call(self, x):
        return self.inner(x)


class CompiledByXla(Compiled):
    call = tf.function(Compiled.call.python_function, jit_compile=True)


class OfOneSignature(Compiled):
    call = tf.function(Compiled.call.python_function, input_signature=[tf.TensorSpec([None, 4])])


class Subclassed(keras.Model):
    def __init__(self, width):  # no config: it cannot be copied
        super().__init__()
        self.inner = keras.layers.Dense(width)

    def call(self, x):
        return self.inner(x)


class Native(tf.Module):
    def __init__(self):
        super().__init__()
        self.w = tf.Variable(tf.ones((4, 2)))
        self.closure = tf.function(lambda x: x @ self.w)

    def __call__(self, x):
        return self.closure(x)


def subclassed():
    model = Subclassed(2)
    model(tf.ones((1, 4)))
    return model


def sequential(layer):
    return keras.Sequential([keras.Input((4,)), layer])


MODELS = {
    "dense": lambda: sequential(keras.layers.Dense(2)),
    "subclassed": subclassed,
    "compiled": lambda: sequential(Compiled()),
    "xla": lambda: sequential(CompiledByXla()),
    "one signature": lambda: sequential(OfOneSignature()),
    "module": Native,
}


def made(name):
    keras.utils.set_random_seed(1)
    return MODELS[name]()


def squares(model, x, y):
    return tf.reduce_mean((model(x) - y) ** 2)


@pytest.mark.parametrize("name", ["subclassed", "compiled", "xla", "one signature", "module"])
def test_each_kind_of_model_trains_as_on_one_device(name):
    model, alone = made(name), unidev.place(made(name), "gpu:0")
    if name in ("compiled", "module"):  # the suite's compiled layer is traced on the replicas
        model(tf.ones((11, 4))), model(tf.ones((10, 4)))
    check_training(unidev.DataParallel(model, THREE), alone, batch(), squares, squares)


def closed_over(model):
    loss_of = tf.function(lambda x, y: squares(model, x, y))
    return lambda _, x, y: loss_of(x, y)


@pytest.mark.parametrize("make", [lambda _: tf.function(squares), closed_over])
def test_a_loss_that_is_a_tf_function_traces_for_each_device(make):
    model, alone = made("dense"), unidev.place(made("dense"), "gpu:0")
    net = unidev.DataParallel(model, THREE)
    check_training(net, alone, batch(), make(model), squares)
    # another one, while the first may be gone
    check_training(net, alone, batch(), make(model), squares)
    gc.collect()
    check_training(net, alone, batch(), make(model), squares)


def test_a_function_is_traced_once_for_each_device():
    traces = []

    @tf.function
    def loss_of(model, x, y):
        traces.append(x)
        return squares(model, x, y)

    net = unidev.DataParallel(made("dense"), THREE)
    x, y = batch(30)
    for _ in range(4):
        unidev.value_and_grad(loss_of)(net, x, y)
    assert len(traces) == 3
    plain = unidev.value_and_grad(loss_of)(net.model, *batch(10))
    assert len(traces) == 3  # the first device's are as before
    assert plain[1]


@pytest.mark.filterwarnings("ignore:__array__:DeprecationWarning")  # of Keras's pickling
def test_what_keras_cannot_copy_is_refused_by_replicate_alone():
    model = made("subclassed")
    with pytest.raises(unidev.UnsupportedOperation, match="DataParallel"):
        unidev.replicate(model, THREE)
    assert unidev.DataParallel(model, THREE)(batch()[0]).shape == (31, 2)
    before = random.getstate()  # from which Keras draws a seed for each initializer
    assert len(unidev.replicate(made("dense"), THREE)) == 3
    assert random.getstate() == before


def test_unbuilt_models_are_refused():
    with pytest.raises(unidev.UnsupportedOperation, match="not built"):
        unidev.DataParallel(keras.layers.Dense(2), THREE)
