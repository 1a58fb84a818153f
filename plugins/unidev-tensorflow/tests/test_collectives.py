"""Reductions of variables, and of what TensorFlow would not copy."""

from __future__ import annotations

import keras
import pytest
import tensorflow as tf

import unidev


def variables(value: float) -> list[list[tf.Variable]]:
    made = []
    for index in range(2):
        with unidev.gpu(index):
            made.append([tf.Variable([value + index, 1.0]), tf.Variable(value * (index + 1))])
    return made


def test_variables_are_written_in_place_and_tensors_are_refused_before() -> None:
    trees = variables(2.0)
    held = [list(tree) for tree in trees]
    assert unidev.all_reduce(trees, in_place=True) is trees
    for index, tree in enumerate(held):
        assert tree[0].numpy().tolist() == [5, 2]
        assert tree[1].numpy() == 6
        assert unidev.device_of(tree) is unidev.gpu(index)
        assert trees[index][0] is tree[0]
    mixed = [held[0], [held[1][0], unidev.copy_to(held[1][1], "gpu:1")]]
    with pytest.raises(unidev.UnsupportedOperation, match=r"trees\[1\]\[1\] cannot be written to"):
        unidev.all_reduce(mixed, in_place=True)
    assert held[0][0].numpy().tolist() == [5, 2]


def test_a_variable_that_was_reduced_can_be_trained_alone() -> None:
    trees = variables(2.0)
    unidev.all_reduce(trees, in_place=True)
    trees[0][0].assign_add([1.0, 1.0])
    assert trees[0][0].numpy().tolist() == [6, 3]
    assert trees[0][1].numpy() == 6
    assert trees[1][0].numpy().tolist() == [5, 2]


def test_variables_of_keras() -> None:
    with unidev.gpu(0):
        first = keras.Variable([1.0, 2.0])
    with unidev.gpu(1):
        second = keras.Variable([3.0, 4.0])
    assert unidev.all_reduce([{"w": first}, {"w": second}], "mean", in_place=True)
    assert first.numpy().tolist() == second.numpy().tolist() == [2, 3]
    assert unidev.device_of(second) is unidev.gpu(1)


def test_strings_are_split_and_broadcast() -> None:
    words = unidev.copy_to(tf.constant(["a", "b", "c"]), "cpu")
    shards = unidev.split_batch({"word": words}, ["cpu", "cpu"])
    assert [shard["word"].numpy().tolist() for shard in shards] == [[b"a", b"b"], [b"c"]]
    assert unidev.gather(shards, "cpu")["word"].numpy().tolist() == [b"a", b"b", b"c"]
    with pytest.raises(unidev.UnsupportedDtypeError, match="string"):
        unidev.all_reduce([words, words])


def test_each_of_many_tensors_comes_back_as_it_was() -> None:
    trees = [[tf.fill([1 + n % 3], float(n)) for n in range(700)] for _ in range(2)]
    found = unidev.all_reduce(trees)[1]
    assert [x.numpy().tolist() for x in found] == [[2.0 * n] * (1 + n % 3) for n in range(700)]
