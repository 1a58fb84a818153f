"""TensorFlow's own pipelines, read ahead."""

from __future__ import annotations

import itertools

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


def test_the_end_of_a_dataset_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow may raise an error of one thread's operation in another's, on another device."""
    raised = []
    made = tf.errors.OutOfRangeError.__init__

    def noted(self, *arguments: object) -> None:
        raised.append(self)
        made(self, *arguments)

    monkeypatch.setattr(tf.errors.OutOfRangeError, "__init__", noted)
    dataset = tf.data.Dataset.range(3)
    odd = dataset.filter(lambda x: x % 2 == 1)  # its length is not known
    endless = itertools.islice(unidev.prefetch(dataset.repeat(), "gpu:0"), 4)
    begun = iter(dataset)
    assert int(next(begun)) == 0
    assert [int(each) for each in unidev.prefetch(dataset, "gpu:0")] == [0, 1, 2]
    assert [int(each) for each in unidev.prefetch(odd, "gpu:0")] == [1]
    assert [int(each) for each in endless] == [0, 1, 2, 0]
    assert [int(each) for each in unidev.prefetch(begun, "gpu:0")] == [1, 2]
    assert not raised
    assert not list(begun)  # read to the end, which TensorFlow's own way says by an error
    assert raised


def test_a_dataset_of_another_length_than_it_says_is_read_to_its_end() -> None:
    dataset = tf.data.Dataset.range(5)
    for said in (3, 7):
        wrong = dataset.apply(tf.data.experimental.assert_cardinality(said))
        with pytest.raises(tf.errors.FailedPreconditionError, match=f"contain {said} elements"):
            list(unidev.prefetch(wrong, "gpu:0"))


def test_a_dataset_may_be_the_first_that_unidev_sees_of_tensorflow(warm_python) -> None:
    done = warm_python(
        """if True:
        import tensorflow as tf, unidev
        from unidev.backends.loading import loaded_backends
        assert not loaded_backends
        batches = iter(unidev.prefetch(tf.data.Dataset.range(3), "cpu"))
        assert "tensorflow" in loaded_backends
        print(len(list(batches)))
        """
    )
    assert (done.stdout, done.returncode) == ("3\n", 0), done.stderr
