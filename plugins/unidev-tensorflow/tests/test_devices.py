"""Devices: spelling, counting, scopes, tensors that lie on none or on several."""

import numpy as np
import pytest
import tensorflow as tf
from turns import in_a_thread

import unidev


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("/GPU:1", "gpu:1"), ("GPU:1", "gpu:1"), ("/device:GPU:0", "gpu:0"), ("/gpu:3", "gpu:3"),
        ("/job:localhost/replica:0/task:0/device:GPU:0", "gpu:0"), ("/CPU:0", "cpu:0"),
        ("/CPU", "cpu:0"), ("GPU", "gpu:0"), ("/device:CPU:2", "gpu:1"),
        (tf.DeviceSpec(device_type="GPU", device_index=2), "gpu:2"),
        (tf.DeviceSpec.from_string("/job:localhost/device:CPU:3"), "gpu:2"),
        (tf.config.LogicalDevice(name="/device:CPU:4", device_type="CPU"), "gpu:3"),
    ],
)  # fmt: skip
def test_tensorflows_spellings_mean_one_device(spec, expected):
    assert unidev.as_device(spec) is unidev.as_device(expected)


def test_a_physical_device_means_the_first_of_its_logical_ones():
    assert unidev.as_device(tf.config.list_physical_devices("CPU")[0]) is unidev.cpu()


@pytest.mark.parametrize("spec", ["/TPU:0", "cuda:0", "/GPU:x", "/job:worker/GPU:0", "", "/",
                                  "/task:1/GPU:0", "/physical_device:GPU:0", {}, None])  # fmt: skip
def test_what_means_no_device_is_refused(spec):
    with pytest.raises(unidev.DeviceSpecError):
        unidev.as_device(spec)


def test_a_scope_inside_tensorflows_own_wins():
    with tf.device("/job:localhost/CPU:3"), unidev.gpu(0):
        assert str(unidev.device_of(tf.ones(3))) == "gpu:0"


def test_a_scope_left_before_a_scope_of_tensorflow_within_it_says_so():
    def suspended():
        with unidev.gpu(0):
            yield

    generator = suspended()

    def in_its_own_thread():  # where TensorFlow keeps the device that it was left with
        next(generator)
        with tf.device("/CPU:2"), unidev.gpu(3):
            with pytest.raises(unidev.ScopeError, match=r"exit from `with gpu:0:` while a `tf.dev"):
                generator.close()
            found.append(str(unidev.device_of(unidev.ones(1))))
            found.append(str(unidev.device_of(tf.ones(1))))
        found.append(str(unidev.device_of(unidev.ones(1))))

    found = []
    in_a_thread(in_its_own_thread)
    assert found == ["gpu:3", "gpu:3", "cpu:0"]


def test_a_tensor_on_several_devices_says_so():
    strategy = tf.distribute.MirroredStrategy(["/CPU:0", "/CPU:1"])
    with strategy.scope():
        variable = tf.Variable([1.0])
    per_replica = strategy.run(lambda: tf.ones(2))
    for x in (variable, per_replica):
        for call in (unidev.device_of, lambda x: unidev.copy_to(x, "cpu")):
            with pytest.raises(unidev.UnsupportedOperation, match="cpu:0, gpu:0"):
                call(x)
    assert unidev.to_numpy(variable).tolist() == [1.0]
    with pytest.raises(unidev.UnsupportedOperation, match="several"):
        unidev.to_numpy(per_replica)  # as a whole it has no value


def test_a_dtensor_says_so():
    from tensorflow.experimental import dtensor

    mesh = dtensor.create_mesh([("x", 2)], devices=["CPU:0", "CPU:1"])
    x = dtensor.call_with_layout(tf.ones, dtensor.Layout.replicated(mesh, 1), shape=(4,))
    for call in (unidev.device_of, lambda x: unidev.copy_to(x, "cpu"), unidev.to_numpy):
        with pytest.raises(unidev.UnsupportedOperation, match="DTensor"):
            call(x)


def test_memory_is_declined_with_a_reason():
    with pytest.raises(unidev.UnsupportedOperation, match="allocator"):
        unidev.memory("gpu:0")


def test_zeros_like_and_full_work_of_dtypes_without_a_name():
    e5m2 = tf.dtypes.experimental.float8_e5m2
    x = tf.cast(tf.constant([1.0, 2.0]), e5m2)
    assert unidev.zeros_like(x).dtype == e5m2
    assert tf.cast(unidev.ones_like(x), tf.float32).numpy().tolist() == [1.0, 1.0]
    q = tf.bitcast(tf.constant([1, 2], tf.int8), tf.qint8)
    assert not np.asarray(unidev.zeros_like(q)).view("int8").any()
