"""TensorFlow's own pipelines, read ahead."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import unidev


def test_batches_of_a_dataset() -> None:
    numbers = np.arange(10, dtype=np.float32)
    dataset = tf.data.Dataset.from_tensor_slices({"x": numbers, "label": numbers > 4}).batch(4)
    batches = unidev.prefetch(dataset, "gpu:1")
    assert len(batches) == 3
    for _ in range(2):
        found = list(batches)
        assert {unidev.device_of(each) for each in found} == {unidev.gpu(1)}
        assert np.concatenate([each["x"].numpy() for each in found]).tolist() == numbers.tolist()
        assert found[-1]["label"].numpy().tolist() == [True, True]


def test_a_dataset_of_unknown_length_and_its_own_error() -> None:
    def numbers():
        yield 1
        raise LookupError("no second number")

    dataset = tf.data.Dataset.from_generator(numbers, output_signature=tf.TensorSpec((), tf.int64))
    batches = unidev.prefetch(dataset, "gpu:0")
    assert not hasattr(batches, "__len__")
    iterator = iter(batches)
    assert int(next(iterator)) == 1
    with pytest.raises(tf.errors.UnknownError, match="no second number"):
        next(iterator)
