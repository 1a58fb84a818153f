"""What exchanging handles leans on; a version of TensorFlow or Keras that changes fails here first.

The names are not public: see ``unidev_tensorflow/models/swap.py``.
"""

import pytest
import tensorflow as tf

from unidev_tensorflow.models.swap import parts_of, swap, swap_handles, twin_of, values_of


def on(device, value):
    with tf.device(device):
        return tf.Variable(value)


@pytest.fixture
def pair():
    return on("/CPU:0", [1.0, 2.0]), on("/CPU:2", [3.0, 4.0])


def test_exchanging_handles_exchanges_values_devices_and_owners(pair):
    one, other = pair
    names = one.name, one._unique_id
    swap_handles(one, other)
    assert (one.numpy().tolist(), other.numpy().tolist()) == ([3.0, 4.0], [1.0, 2.0])
    assert one.device.endswith("CPU:2")
    assert other.device.endswith("CPU:0")
    for variable in pair:
        assert variable._handle._parent_trackable() is variable
        assert variable._handle._unique_id == variable._unique_id
    assert (one.name, one._unique_id) == names


def test_a_part_of_any_dtypes_and_shapes_is_read_and_gets_other_handles():
    with tf.device("/CPU:0"):
        variables = [
            tf.Variable([[1.0, -0.0]], shape=tf.TensorShape(None)),
            tf.Variable([[1, 2]], shape=tf.TensorShape([None, 2]), dtype=tf.int64),
            tf.Variable([True, False]),
            tf.Variable(1.5, dtype=tf.bfloat16),
            tf.Variable(["a", "b"]),
        ]
    numbers, words = parts_of(variables)
    for part in (numbers, words):
        source, target = part[0].device, part[0].device.replace("CPU:0", "CPU:2")
        values = values_of(part, source)
        expected = [value.numpy().tolist() for value in values]
        with tf.device(target):
            copies = [tf.raw_ops.DeepCopy(x=value) for value in values]
        twins = twin_of(part, copies, target)
        swap(part, twins)
        assert [variable.numpy().tolist() for variable in part] == expected
        assert {variable.device for variable in part} == {target}
        assert {twin._handle.device for twin in twins} == {source}
    variables[0].assign([1.0, 2.0, 3.0])
    variables[1].assign([[1, 2], [3, 4]])
    assert [tuple(x.value().shape) for x in variables[:2]] == [(3,), (2, 2)]
    assert [x.shape.rank for x in variables[:2]] == [None, 2]


def test_an_interrupt_between_two_variables_puts_both_back(pair, monkeypatch):
    part = [pair[0], on("/CPU:0", [7.0, 8.0])]
    twins = [on("/CPU:1", [5.0, 6.0]), pair[1]]
    handles = [variable._handle for variable in part]
    calls = []

    def interrupted(one, other):
        calls.append(one)
        if len(calls) == 2:
            raise KeyboardInterrupt
        swap_handles(one, other)

    monkeypatch.setattr("unidev_tensorflow.models.swap.swap_handles", interrupted)
    with pytest.raises(KeyboardInterrupt):
        swap(part, twins)
    assert len(calls) == 3  # the first, forth and back
    assert all(x._handle is handle for x, handle in zip(part, handles, strict=True))
    assert [x.numpy().tolist() for x in part] == [[1.0, 2.0], [7.0, 8.0]]


def test_assign_under_a_scope_moves_nothing():
    variable = on("/CPU:0", [1.0])
    with tf.device("/CPU:2"):
        variable.assign([2.0])
    assert variable.device.endswith("CPU:0")  # or place could do without any of this
