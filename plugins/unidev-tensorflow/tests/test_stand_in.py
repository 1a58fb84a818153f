"""Copies to and from GPUs, on a stand-in that counts what crosses the bus and what is in use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from plugin_suite import judge

if TYPE_CHECKING:
    from pathlib import Path

RELEASED = "memory.returns_after_del"
GROWS = "copy.allocated_bytes_grow"
LANDS = "copy.lands_on_the_device_asked_for"
BEGIN = """
import numpy as np
import tensorflow as tf
import unidev
from counters import moved_bytes, transfers, used_bytes

unidev.set_backend("tensorflow")
assert unidev.num_gpus() == 2 and not unidev.gpu(1).is_simulated
values = np.arange(2_000_000, dtype="float32")
size = values.nbytes
tf.ones(3)  # starts the runtime
"""


def test_each_copy_moves_its_bytes_and_takes_its_memory_alone(on_stand_in):
    on_stand_in(
        BEGIN
        + """
x = unidev.array(values, device="cpu")
used, moved = used_bytes(1), moved_bytes(1)
first = unidev.copy_to(x, "gpu:1")
assert moved_bytes(1) - moved == size, (moved_bytes(1) - moved, size)
assert size <= used_bytes(1) - used < 1.3 * size, (used_bytes(1) - used, size)
second = unidev.copy_to(x, "gpu:1")
assert moved_bytes(1) - moved == 2 * size, "the second copy did not move its bytes"
del first, second
assert used_bytes(1) == used, "the source keeps a copy"
assert x.numpy().tobytes() == values.tobytes()
"""
    )


def test_each_copy_back_moves_its_bytes_and_leaves_none_with_its_source(on_stand_in):
    on_stand_in(
        BEGIN
        + """
x = unidev.array(values, device="gpu:1")
used, moved = used_bytes(1), moved_bytes(1)
copies = [unidev.copy_to(x, "cpu") for _ in range(3)]
assert moved_bytes(1) - moved == 3 * size, moved_bytes(1) - moved
assert len({np.asarray(each).ctypes.data for each in copies}) == 3
assert {each.numpy().tobytes() for each in copies} == {values.tobytes()}
assert used_bytes(1) == used
other = unidev.copy_to(x, "gpu:0")
assert used_bytes(1) == used
there = used_bytes(0)
again = unidev.copy_to(x, "gpu:0")
assert used_bytes(0) - there >= size, "the copies share their memory"
same = unidev.copy_to(x, "gpu:1")
assert used_bytes(1) - used >= size
assert {unidev.to_numpy(each).tobytes() for each in (other, again, same)} == {values.tobytes()}
assert [str(unidev.device_of(each)) for each in (other, again, same)] == ["gpu:0", "gpu:0", "gpu:1"]
"""
    )


@pytest.mark.parametrize("way", ["shortcut", "public"])
@pytest.mark.parametrize("policy", ["silent", "explicit"])
def test_every_dtype_arrives_whatever_the_policy(on_stand_in, policy, way):
    on_stand_in(
        BEGIN
        + f"""
from unidev_tensorflow.deep_copy import eager
if {way!r} == "public":
    eager.context = None
made = {{name: unidev.array([[0, 1], [1, 1]], dtype=name, device="cpu")
        for name in unidev.active_backend().dtypes}}
made["strings"] = tf.constant(["a", "bc" * 50])
made["variable"] = tf.Variable([1.0, 2.0])
with tf.device("GPU:0"):
    made["variable of the GPU"] = tf.Variable([1.0, 2.0])
    made["a size"] = tf.size(tf.ones((3, 2)), out_type=tf.int64)  # an int64 on the host
made["int32 in the GPU's memory"] = tf.constant([1, 2, 3])._copy_to_device(
    "/job:localhost/replica:0/task:0/device:GPU:0")
tf.config.experimental.set_device_policy({policy!r})
for name, x in made.items():
    content = np.asarray(x.numpy()).tolist()
    ways = ("gpu:0", "cpu:0"), ("gpu:1", "gpu:0"), ("gpu:0", "gpu:0"), ("cpu:0", "cpu:0")
    for way in ways:
        y = x
        for target in way:
            z = unidev.copy_to(y, target)
            assert str(unidev.device_of(z)) == target, (name, way, z.device)
            assert np.asarray(z.numpy()).tolist() == content, (name, way)
            if name != "strings" and y is not made["variable"]:
                hosted = "CPU" in z.backing_device
                assert hosted == (target == "cpu:0" or z.dtype == tf.int32), (name, way)
                if hosted and type(y) is type(z) and "CPU" in y.backing_device:
                    assert not unidev.shares_memory(z, y), (name, way)
            y = z
"""
    )


def test_addresses_of_the_memory_of_a_gpu(on_stand_in):
    on_stand_in(
        BEGIN
        + """
small = tf.constant([1, 2, 3], dtype=tf.int8)
for made in (small, tf.bitcast(small, tf.qint8), tf.constant([1.0, 2.0])):
    x = unidev.copy_to(made, "gpu:1")
    y = unidev.copy_to(x, "gpu:1")
    assert unidev.shares_memory(x, x) and not unidev.shares_memory(x, y), made.dtype
x = tf.cast(tf.constant([1.0, 2.0]), tf.dtypes.experimental.float8_e5m2)
x = unidev.copy_to(x, "gpu:1")
try:
    unidev.shares_memory(x, x)
except unidev.UnsupportedOperation as refusal:
    assert "float8_e5m2" in str(refusal)
else:
    raise AssertionError("an address that TensorFlow does not give")
"""
    )


def test_every_verb_works_under_the_policy_explicit(on_stand_in):
    on_stand_in(
        BEGIN
        + """
import keras
with tf.device("CPU:0"):
    net = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3), keras.layers.Dense(1)])
    optimizer = keras.optimizers.Adam()
    optimizer.build(net.trainable_variables)
tf.config.experimental.set_device_policy("explicit")
both = [unidev.gpu(0), unidev.gpu(1)]
parts = unidev.split_batch(unidev.array(values, device="cpu"), both)
assert unidev.to_numpy(unidev.gather(parts, "gpu:1")).tobytes() == values.tobytes()
copies = unidev.broadcast(unidev.array(values, device="gpu:1"), both)
assert [str(unidev.device_of(each)) for each in copies] == ["gpu:0", "gpu:1"]
before = [np.array(each) for each in net.get_weights()]
unidev.place(net, "gpu:1", optimizer=optimizer)
assert str(unidev.device_of(net)) == "gpu:1"
for old, new in zip(before, net.variables):
    assert np.array_equal(old, unidev.to_numpy(new.value))
unidev.place(net, "cpu", optimizer=optimizer)
assert str(unidev.device_of(net)) == "cpu:0"
"""
    )


def test_placing_a_model_moves_each_byte_once_and_keeps_none(on_stand_in):
    on_stand_in(
        BEGIN
        + """
import keras
net = keras.Sequential([keras.Input((1000,)), keras.layers.Dense(2000, use_bias=False)])
with tf.device("CPU:0"):
    net.build((None, 1000))
unidev.place(net, "cpu")
for target in ("gpu:1", "cpu", "gpu:1"):
    moved = moved_bytes(1)
    unidev.place(net, target)
    assert moved_bytes(1) - moved == size, (target, moved_bytes(1) - moved)
    assert used_bytes(1) < (1.3 if target == "gpu:1" else 0.3) * size, (target, used_bytes(1))
"""
    )


def test_gradients_come_back_over_a_copy(on_stand_in):
    on_stand_in(
        BEGIN
        + """
x = unidev.array([1.0, 2.0], device="gpu:0")
with tf.GradientTape() as tape:
    tape.watch(x)
    y = unidev.copy_to(x, "cpu")
    with unidev.cpu():
        total = tf.reduce_sum(y ** 3)
slope = tape.gradient(total, x)
assert slope.device == x.device, slope.device
assert slope.numpy().tolist() == [3.0, 12.0]

@tf.function
def there(x):
    return unidev.copy_to(x, "gpu:1")

with unidev.gpu(1):
    y = there(x)
assert str(unidev.device_of(y)) == "gpu:1" and y.numpy().tolist() == [1.0, 2.0]
"""
    )


def test_a_full_gpu_is_lack_of_memory_and_usable_afterwards(on_stand_in):
    on_stand_in(
        BEGIN
        + """
from unidev_tensorflow.deep_copy import public
public.public_copy = None  # no second way: TensorFlow would wait for memory once more
big = unidev.zeros((300, 2**20), device="cpu")  # more than the card has
small = unidev.array(values, device="cpu")
for _ in range(2):
    try:
        unidev.copy_to(big, "gpu:1")
    except unidev.OutOfDeviceMemoryError as error:
        print(error)
    else:
        raise AssertionError("no error")
    assert used_bytes(1) == 0
    kept = unidev.copy_to(small, "gpu:1")
    assert unidev.to_numpy(kept).tobytes() == values.tobytes()
    del kept
""",
        STAND_IN_BYTES=str(900 * 2**20),
    )


def test_a_trace_has_the_shapes_that_are_read_on_the_host_under_any_policy(on_stand_in):
    on_stand_in(
        BEGIN
        + """
axis = unidev.array(np.int64(0), device="gpu:1")
for policy in ("silent", "explicit"):
    tf.config.experimental.set_device_policy(policy)
    moved = moved_bytes(1)
    with unidev.trace_transfers() as trace, tf.device("CPU:0"):
        tf.expand_dims(tf.ones(3), axis)
    assert trace.total_bytes == moved_bytes(1) - moved == 8, (policy, trace.total_bytes)
"""
    )


@pytest.mark.parametrize(("name", "kept"), [("deep_copy", "fail"), ("ours", "pass")])
def test_the_suite_counts_what_stays_with_a_source(
    name: str, kept: str, accelerator: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On GPUs: DeepCopy on the target, which TensorFlow keeps there twice, and our copies."""
    monkeypatch.setenv("TF_PLUGGABLE_DEVICE_LIBRARY_PATH", str(accelerator))
    found = judge(
        f"naive_tensorflow:{name}",
        (RELEASED, GROWS, LANDS),
        instead_of="tensorflow",
        simulated=0,
        folder=tmp_path,
        is_fresh=True,
    )
    assert found == {RELEASED: kept, GROWS: kept, LANDS: "pass"}
