"""Reductions of MXNet's two classes of arrays."""

import mxnet as mx
import pytest

import unidev


@pytest.mark.parametrize("module", [mx.nd, mx.np])
def test_results_have_the_class_of_their_inputs(module):
    devices = unidev.try_all_gpus()[:2]
    trees = [
        [module.array([[1.0, 2.0]], ctx=device.native), module.array([3.0], ctx=device.native)]
        for device in devices
    ]
    for made in (unidev.all_reduce(trees), unidev.broadcast(trees[0], devices)):
        for tree, device in zip(made, devices, strict=True):
            assert {type(x) for x in tree} == {type(trees[0][0])}
            assert [x.shape for x in tree] == [(1, 2), (1,)]
            assert unidev.device_of(tree) is device
    shards = unidev.split_batch(module.array([[1.0], [2.0]], ctx=devices[0].native), devices)
    assert {type(x) for x in shards} == {type(trees[0][0])}
    whole = unidev.gather(shards, "cpu")
    assert type(whole) is type(trees[0][0])
    assert whole.asnumpy().tolist() == [[1], [2]]
    held = [tree[0] for tree in trees]
    assert unidev.all_reduce(trees, "max", in_place=True) is trees
    assert [x.asnumpy().tolist() for x in held] == [[[1, 2]]] * 2


def test_a_row_less_and_a_zero_dimensional_array_are_reduced_outside_numpy_semantics():
    trees = [[unidev.zeros((0, 2), device=d), unidev.full((), 2.0, device=d)] for d in ("cpu",) * 2]
    reduced = unidev.all_reduce(trees)
    assert [tuple(x.shape) for x in reduced[1]] == [(0, 2), ()]
    assert unidev.to_numpy(reduced[1][1]) == 4
