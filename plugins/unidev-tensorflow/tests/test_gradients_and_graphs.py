"""Autograd through copies, and copies where a graph is traced."""

import numpy as np
import pytest
import tensorflow as tf

import unidev
from unidev_tensorflow.deep_copy import eager as shortcut
from unidev_tensorflow.deep_copy.public import register_gradient


@pytest.fixture(params=["shortcut", "public"], autouse=True)
def way(request, monkeypatch):
    if request.param == "public":
        monkeypatch.setattr(shortcut, "context", None)


def cubed_on(device, x):
    with tf.device(device.native):
        return unidev.copy_to(x, device) ** 3


def test_the_second_derivative_is_right():
    x = tf.constant(2.0)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = cubed_on(unidev.gpu(0), x)
        first = inner.gradient(y, x)
    assert float(outer.gradient(first, x)) == 12.0


def test_forward_mode_is_right():
    x = tf.constant([1.0, 2.0])
    with tf.autodiff.ForwardAccumulator(x, tf.constant([1.0, 0.0])) as accumulator:
        y = cubed_on(unidev.gpu(0), x)
    assert accumulator.jvp(y).numpy().tolist() == [3.0, 0.0]


def test_the_jacobian_is_right():
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = cubed_on(unidev.gpu(0), x)
    assert tape.jacobian(y, x).numpy().tolist() == [[3.0, 0.0], [0.0, 12.0]]


def test_registering_once_more_leaves_what_is_registered():
    register_gradient()
    with pytest.raises(KeyError):
        tf.RegisterGradient("DeepCopy")(lambda _operation, upstream: upstream)


def test_in_a_function_a_copy_is_a_copy_each_time_with_its_gradient():
    @tf.function
    def copied(x):
        return unidev.copy_to(unidev.copy_to(x, "gpu:1"), "cpu")

    @tf.function
    def slope(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(cubed_on(unidev.gpu(1), x))
        return tape.gradient(y, x)

    x = tf.constant([1.0, 2.0])
    first, second = copied(x), copied(x)
    assert not unidev.shares_memory(first, x)
    assert not unidev.shares_memory(first, second)
    assert slope(x).numpy().tolist() == [3.0, 12.0]
    operations = copied.get_concrete_function(x).graph.get_operations()
    placed = [operation.device for operation in operations if operation.type == "DeepCopy"]
    assert [device.rpartition(":")[2] for device in placed] == ["2", "0"]
    assert all("CPU" in device for device in placed)


def test_a_ragged_tensor_and_a_variable_are_copied_in_a_function():
    variable = tf.Variable([3.0])

    @tf.function
    def copied(x):
        return unidev.copy_to(x, "gpu:1"), unidev.copy_to(variable, "gpu:1")

    ragged, value = copied(tf.ragged.constant([[1.0], [2.0, 3.0]]))
    assert ragged.to_list() == [[1.0], [2.0, 3.0]]
    assert value.numpy().tolist() == [3.0]


def test_in_a_function_what_needs_a_device_is_refused_with_a_reason():
    refused = {}

    def attempt(name, call):
        try:
            call()
        except unidev.UnsupportedOperation as error:
            refused[name] = str(error)

    @tf.function
    def traced(x):
        attempt("as_in_device", lambda: unidev.as_in_device(x, "cpu"))
        attempt("device_of", lambda: unidev.device_of(x))
        attempt("to_numpy", lambda: unidev.to_numpy(x))
        attempt("check", lambda: unidev.check_same_device(x, x))
        attempt("shares", lambda: unidev.shares_memory(x, x))
        return x

    traced(tf.ones(3))
    assert set(refused) == {"as_in_device", "device_of", "to_numpy", "check", "shares"}
    assert all("traced" in message for message in refused.values())


def test_the_errors_of_unidev_pass_through_a_function():
    @tf.function
    def moved(x):
        return unidev.as_in_device(x, "gpu:0")

    @tf.function
    def lost(x):
        return unidev.copy_to(x, "gpu:7")

    with pytest.raises(unidev.UnsupportedOperation):
        moved(tf.ones(3))
    with pytest.raises(unidev.DeviceNotFoundError):
        lost(tf.ones(3))


def test_symbolic_tensors_of_keras_are_refused_with_a_reason():
    import keras

    x = keras.Input((3,))
    for call in (unidev.device_of, lambda x: unidev.copy_to(x, "cpu"), unidev.to_numpy):
        with pytest.raises(unidev.UnsupportedOperation, match="KerasTensor"):
            call(x)


def test_op_callbacks_see_copies():
    from tensorflow.python.framework import op_callbacks as callbacks

    seen = []

    def callback(op_type, *_rest, **_options):
        seen.append(op_type)

    callbacks.add_op_callback(callback)
    try:
        copied = unidev.copy_to(tf.ones(3), "gpu:1")
    finally:
        callbacks.remove_op_callback(callback)
    assert [name for name in seen if name in ("DeepCopy", b"DeepCopy")]
    assert np.asarray(copied).tolist() == [1.0, 1.0, 1.0]
