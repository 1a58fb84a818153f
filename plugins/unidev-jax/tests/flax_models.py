"""Flax modules with everything that holds arrays, and the same numbers each time."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx

X = jnp.linspace(-1.0, 1.0, 20).reshape(5, 4)


class Block(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.dense = nnx.Linear(4, 4, rngs=rngs)
        self.tables = nnx.data({"first": jnp.arange(4.0), "more": [nnx.Param(jnp.ones(4))]})

    def __call__(self, x: Any) -> Any:
        return jnp.tanh(self.dense(x)) * self.tables["more"][0][...] + self.tables["first"]


class Net(nnx.Module):
    """A tied kernel, a shared block, dropout, batch statistics, and arrays of its own."""

    def __init__(self) -> None:
        rngs = nnx.Rngs(0)
        self.first = nnx.Linear(4, 4, rngs=rngs)
        self.second = nnx.Linear(4, 4, rngs=rngs)
        self.second.kernel = self.first.kernel
        self.block = self.again = Block(rngs)
        self.frozen = nnx.Param(jnp.full(4, 0.5), trainable=False)
        self.drop = nnx.Dropout(0.5, rngs=rngs)
        self.norm = nnx.BatchNorm(4, rngs=rngs)
        self.pair = nnx.Cache((jnp.ones(4), jnp.zeros(4)))
        self.calls = jnp.zeros((), jnp.int32)

    def __call__(self, x: Any) -> Any:
        self.calls = self.calls + 1
        x = self.again(self.block(self.first(x))) + self.pair.get_value()[1]
        return self.norm(self.drop(self.second(x) * self.frozen[...]))


def is_trained(path: Any, x: Any) -> bool:
    return isinstance(x, nnx.Param) and bool(x.get_metadata("trainable", True))


def adam(net: Any) -> Any:
    return nnx.Optimizer(net, optax.adam(0.01), wrt=is_trained)


def loss_of(net: Any, x: Any) -> Any:
    return (net(x) ** 2).sum()


def devices_in(whole: Any) -> set[str]:
    """JAX's devices of all arrays in it."""
    leaves = jax.tree.leaves(nnx.state(whole))
    return {str(device) for x in leaves if isinstance(x, jax.Array) for device in x.devices()}
