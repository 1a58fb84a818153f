"""``tf.TensorArray`` in batches."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import unidev

CPU, GPU = unidev.cpu(), unidev.gpu(0)


def written(**options):
    array = tf.TensorArray(tf.float32, size=3, clear_after_read=False, **options)
    for index in (0, 2):
        array = array.write(index, tf.fill(2, float(index)))
    return array


@pytest.mark.parametrize("copy", [unidev.copy_to, unidev.as_in_device])
def test_what_was_written_moves(copy):
    array = written(element_shape=(2,))
    batch = copy({"array": array, "y": unidev.ones(2)}, GPU)
    moved = batch["array"]
    assert unidev.device_of(batch) is GPU
    assert moved.read(2).numpy().tolist() == [2.0, 2.0]
    assert unidev.device_of(moved.read(0)) is GPU
    assert (moved.size().numpy(), moved.element_shape, moved.dtype) == (3, (2,), tf.float32)
    assert unidev.device_of(array.read(0)) is CPU
    moved.write(1, tf.zeros(2)).mark_used()


def test_inside_a_function_it_is_refused_by_name():
    @tf.function
    def traced(x):
        array = tf.TensorArray(tf.float32, size=1).write(0, x)
        with pytest.raises(unidev.UnsupportedOperation, match=r"array\.stack\(\)"):
            unidev.copy_to(array, GPU)
        return array.stack()

    assert np.array(traced(tf.ones(2))).tolist() == [[1.0, 1.0]]
