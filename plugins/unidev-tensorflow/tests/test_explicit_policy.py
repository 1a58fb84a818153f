"""Every verb under the device policy "explicit", in which TensorFlow moves nothing by itself."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import unidev
from unidev import nn
from unidev_tensorflow.deep_copy import eager as shortcut

DEVICES = ("cpu", "gpu:0", "gpu:2")
DTYPES = ("float32", "bool", "int32", "int64", "complex64", "float16")


@pytest.fixture(autouse=True, params=["shortcut", "public"])
def explicit(request, monkeypatch):
    # First: the policy in which TensorFlow's context starts is that of all later threads.
    tf.config.list_logical_devices()
    before = tf.config.experimental.get_device_policy()
    if request.param == "public":
        monkeypatch.setattr(shortcut, "context", None)
    tf.config.experimental.set_device_policy("explicit")
    yield
    tf.config.experimental.set_device_policy(before)


@pytest.fixture
def x():
    return unidev.array([[1.0, 2.0], [3.0, 4.0]], device="gpu:0")


def test_the_policy_refuses_what_tensorflow_would_move(x):
    with pytest.raises(tf.errors.InvalidArgumentError, match="conflicting devices"):
        x + unidev.ones((2, 2), device="gpu:1")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("target", DEVICES)
@pytest.mark.parametrize("source", DEVICES)
def test_copies(source, target, dtype):
    x = unidev.array([[1, 0], [0, 1]], dtype=dtype, device=source)
    for verb in (unidev.copy_to, unidev.as_in_device, unidev.array):
        y = verb(x, device=target) if verb is unidev.array else verb(x, target)
        assert str(unidev.device_of(y)) == str(unidev.as_device(target))
        assert unidev.to_numpy(y).tolist() == unidev.to_numpy(x).tolist()
        assert y is x or not unidev.shares_memory(x, y)


@pytest.mark.parametrize(
    "name", ["strings", "ragged", "sparse", "qint8", "float8_e5m2", "variable"]
)
def test_copies_of_unusual_tensors(name):
    x = unidev.active_backend().probe.specials(unidev.gpu(1))[name]
    y = unidev.copy_to(x, "gpu:2")
    assert str(unidev.device_of(y)) == "gpu:2"
    read = unidev.active_backend().probe.read
    assert read(y) == read(x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_new_tensors(dtype):
    for make in (unidev.zeros, unidev.ones, unidev.empty):
        assert str(unidev.device_of(make((2, 3), dtype=dtype, device="gpu:1"))) == "gpu:1"
    if dtype in ("float32", "float16"):
        for make in (unidev.rand, unidev.randn):
            assert str(unidev.device_of(make((2, 3), dtype=dtype, device="gpu:1"))) == "gpu:1"
    made = unidev.full((2, 2), 1, dtype=dtype, device="gpu:1")
    assert unidev.to_numpy(made).tolist() == np.ones((2, 2), dtype).tolist()
    assert unidev.to_numpy(unidev.zeros_like(made, device="gpu:2")).sum() == 0
    assert unidev.to_numpy(unidev.arange(3, device="gpu:1")).tolist() == [0, 1, 2]
    assert unidev.to_numpy(unidev.array(3.0, device="gpu:1")).tolist() == 3.0


def test_casts(x):
    y = unidev.array(x, dtype="float64", device="gpu:1")
    assert unidev.to_numpy(y).tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_several_devices(x):
    devices = [unidev.gpu(i) for i in range(3)]
    batch = unidev.arange(12, device="cpu")
    parts = unidev.split_batch(batch, devices)
    assert unidev.to_numpy(unidev.gather(parts, "gpu:3")).tolist() == list(range(12))
    assert unidev.to_numpy(unidev.gather(parts, "cpu")).tolist() == list(range(12))
    copies = unidev.broadcast(x, devices)
    assert [str(unidev.device_of(each)) for each in copies] == ["gpu:0", "gpu:1", "gpu:2"]
    for op in ("sum", "mean", "max"):
        reduced = unidev.all_reduce(copies, op)
        values = unidev.to_numpy(reduced[1]).tolist()
        factor = 3 if op == "sum" else 1
        assert values == (factor * unidev.to_numpy(x)).tolist()
    both = [{"w": each, "b": unidev.ones((3,), device=each.device)} for each in copies]
    assert unidev.to_numpy(unidev.all_reduce(both)[2]["b"]).tolist() == [3.0, 3.0, 3.0]


def net_on(device):
    with unidev.as_device(device):
        return nn.sequential(nn.dense(2, 3), nn.relu(), nn.dense(3, 1))


def test_models(tmp_path):
    net = net_on("cpu")
    unidev.place(net, "gpu:1")
    assert str(unidev.device_of(net)) == "gpu:1"
    x = unidev.ones((4, 2), device="gpu:1")
    with unidev.gpu(1):
        before = unidev.to_numpy(net(x))
    unidev.save_parameters(net, tmp_path / "net.safetensors")
    other = net_on("gpu:2")
    unidev.load_parameters(other, tmp_path / "net.safetensors")
    with unidev.gpu(2):
        after = unidev.to_numpy(other(unidev.copy_to(x, "gpu:2")))
    assert before.tolist() == after.tolist()


def test_keras_models_with_an_optimizer():
    import keras

    net = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3), keras.layers.Dense(1)])
    optimizer = keras.optimizers.Adam()
    optimizer.build(net.trainable_variables)
    unidev.place(net, "gpu:1", optimizer=optimizer)
    assert str(unidev.device_of(net)) == "gpu:1"
    unidev.place(net, "cpu", optimizer=optimizer)
    assert str(unidev.device_of(net)) == "cpu:0"


def loss(net, x):
    """Without axes: TensorFlow keeps those on the first CPU, and its own ``reduce_sum`` fails."""
    y = net(x)
    with unidev.device_of(y):
        return tf.nn.l2_loss(y)


def test_gradients_and_steps():
    net = net_on("gpu:1")
    x = unidev.ones((4, 2), device="gpu:1")
    found, gradients = unidev.value_and_grad(loss)(net, x)
    assert str(unidev.device_of(found)) == "gpu:1"
    assert {str(unidev.device_of(each)) for each in gradients.values()} == {"gpu:1"}
    unidev.sgd(net, gradients, lr=0.1)


def test_a_gradient_flows_back_over_copies(x):
    """Both ways; TensorFlow computes what lies between in the scope of the leaves."""

    def half_of_squares(x):
        there = unidev.copy_to(x, "gpu:3")
        back = unidev.copy_to(unidev.copy_to(there, "cpu"), "gpu:0")
        with unidev.gpu(0):
            return tf.nn.l2_loss(back)

    _, gradient = unidev.value_and_grad(half_of_squares)(x)
    assert str(unidev.device_of(gradient)) == "gpu:0"
    assert unidev.to_numpy(gradient).tolist() == unidev.to_numpy(x).tolist()


def test_data_parallel_models():
    net = net_on("gpu:0")
    parallel = unidev.DataParallel(net, [unidev.gpu(0), unidev.gpu(1)])
    x = unidev.ones((4, 2), device="cpu")
    assert parallel(x).shape == (4, 1)
    _, gradients = unidev.value_and_grad(loss)(parallel, x)
    unidev.sgd(parallel, gradients, lr=0.1)


def test_in_a_function(x):
    @tf.function
    def there(x):
        return unidev.copy_to(x, "gpu:2") * 2.0

    with unidev.gpu(2):
        assert unidev.to_numpy(there(x)).tolist() == [[2.0, 4.0], [6.0, 8.0]]
