"""Memory counts and names of GPUs that TensorFlow hides, splits and renumbers, on the stand-in."""

from __future__ import annotations

BEGIN = """
import tensorflow as tf
import unidev
from counters import is_touched, moved_bytes

unidev.set_backend("tensorflow")
MiB = 2**20
first, second, third = tf.config.list_physical_devices("GPU")

def landed_on(device):
    before = [moved_bytes(card) for card in range(3)]
    kept = unidev.copy_to(unidev.zeros((1000,), device="cpu"), device)
    return [card for card in range(3) if moved_bytes(card) > before[card]]

def hardware_index(index):
    return unidev.active_backend().hardware_index("gpu", index)
"""


def test_the_limit_is_that_of_the_allocator_in_use(on_stand_in):
    on_stand_in(
        BEGIN
        + """
total = unidev.memory("gpu:1").total_bytes
kept = unidev.zeros((MiB,), device="gpu:1")
memory = unidev.memory("gpu:1")
assert memory.total_bytes == total > 1000 * MiB
assert memory.used_bytes >= 4 * MiB and memory.free_bytes == total - memory.used_bytes
assert unidev.memory("gpu:0").used_bytes == 0
""",
        STAND_IN_GPUS="3",
    )


def test_gpus_that_are_not_visible_are_left_alone(on_stand_in):
    on_stand_in(
        BEGIN
        + """
tf.config.set_visible_devices([third], "GPU")
assert unidev.num_gpus() == 1
assert unidev.memory("gpu:0").total_bytes > 0
assert [is_touched(card) for card in range(3)] == [False, False, True]
assert hardware_index(0) == 2 and landed_on("gpu:0") == [2]
""",
        STAND_IN_GPUS="3",
    )


def test_an_order_of_visible_gpus_is_not_tensorflows(on_stand_in):
    """TensorFlow numbers them in the order of the hardware, in whatever order they were given."""
    on_stand_in(
        BEGIN
        + """
tf.config.set_visible_devices([third, first], "GPU")
assert [landed_on(f"gpu:{index}") for index in range(2)] == [[0], [2]]
assert [hardware_index(index) for index in range(2)] == [0, 2]
assert str(unidev.as_device(first)) == "gpu:0" and str(unidev.as_device(third)) == "gpu:1"
""",
        STAND_IN_GPUS="3",
    )
