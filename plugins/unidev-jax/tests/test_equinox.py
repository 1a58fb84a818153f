"""Equinox's modules, which are trees: placed and stepped as new ones."""

import equinox
import jax
import jax.numpy as jnp
import numpy as np

import unidev

X = jnp.linspace(-1.0, 1.0, 20).reshape(5, 4)


def test_a_module_of_equinox_is_placed_and_stepped_as_a_new_one():
    net = equinox.nn.MLP(4, 2, 8, 2, key=jax.random.key(1))
    moved = unidev.place(net, "gpu:2")
    assert type(moved) is type(net)
    assert moved.activation is net.activation
    assert str(unidev.device_of(net)) == "cpu:0"
    x = unidev.copy_to(X, "gpu:2")
    loss_of = unidev.value_and_grad(lambda net, x: (jax.vmap(net)(x) ** 2).sum())
    loss, gradients = loss_of(moved, x)
    stepped = unidev.sgd(moved, gradients, lr=0.01)
    assert str(unidev.device_of(stepped)) == "gpu:2"
    assert float(loss_of(stepped, x)[0]) < float(loss)
    own = equinox.filter_grad(lambda net: (jax.vmap(net)(x) ** 2).sum())(moved)
    for mine, other in zip(jax.tree.leaves(gradients), jax.tree.leaves(own), strict=False):
        if isinstance(other, jax.Array):
            np.testing.assert_allclose(mine, other, rtol=1e-5)
