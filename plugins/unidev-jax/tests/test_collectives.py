"""Reductions over JAX's devices: what is JAX's own."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax.experimental import sparse

import unidev
from unidev import nn

DEVICES = ["gpu:0", "gpu:1", "gpu:2"]


class Scaled(nnx.Module):
    """A module with an array outside of a variable."""

    def __init__(self, device):
        self.weight = nnx.Param(unidev.ones(2, device=device))
        self.factor = unidev.full((2,), 3.0, device=device)

    def __call__(self, x):
        return x * self.weight[...] * self.factor


@pytest.mark.parametrize("layout", [sparse.BCOO, sparse.BCSR])
def test_sparse_arrays_have_no_rows_and_no_sums(layout):
    """Their values and indices have others: a sum of those, or a part, is another matrix."""
    x = unidev.copy_to({"x": layout.fromdense(jnp.eye(3))}, "gpu:0")
    for refused in (
        lambda: unidev.split_batch(x, DEVICES),
        lambda: unidev.gather([x, x], "cpu"),
        lambda: unidev.all_reduce([x, x]),
        lambda: unidev.sgd(x, x, lr=1.0),
    ):
        with pytest.raises(unidev.UnsupportedOperation, match=r"several arrays: x.todense\(\)"):
            refused()
    (copied,) = unidev.broadcast(x, DEVICES[1:2])
    assert copied["x"].todense().tolist() == np.eye(3).tolist()
    (rows,) = unidev.split_batch({"x": x["x"].todense()}, DEVICES[:1])
    assert rows["x"].tolist() == np.eye(3).tolist()


def test_an_array_outside_of_a_variable_is_the_same_on_each_replica():
    model = Scaled("gpu:0")
    net = unidev.DataParallel(model, DEVICES[:2])
    for number in range(2):
        with net.replica(number) as replica:
            assert str(unidev.device_of(replica.factor)) == DEVICES[number]
            assert replica.factor.tolist() == [3, 3]


def test_another_array_in_its_place_reaches_each_replica():
    model = Scaled("gpu:0")
    net = unidev.DataParallel(model, DEVICES[:2])
    model.factor = jnp.multiply(model.factor, 2)
    with net.replica(1) as replica:
        assert replica.factor.tolist() == [6, 6]
        assert str(unidev.device_of(replica.factor)) == "gpu:1"


def test_an_array_is_not_written_to():
    write = unidev.active_backend().collectives.write
    x = unidev.ones(3)
    write([x], [unidev.ones(3)])
    with pytest.raises(unidev.UnsupportedOperation, match=r"nnx\.Variable"):
        write([x], [unidev.zeros(3)])


def test_a_layer_that_cannot_be_hashed_is_spread_twice_and_follows_its_input():
    net = unidev.place(nn.sequential(nn.dense(3, 3), nn.residual(nn.dense(3, 3))), "gpu:0")
    with pytest.raises(TypeError, match="unhashable"):
        hash(net[1])  # an nnx.List
    x = unidev.ones((4, 3), device="gpu:0")
    expected = unidev.to_numpy(net(x)).tolist()
    for _ in range(2):
        unidev.spread(net, DEVICES[:2], at=[1])
    y = net(x)
    assert str(unidev.device_of(y)) == "gpu:1"
    assert unidev.to_numpy(y).tolist() == expected
