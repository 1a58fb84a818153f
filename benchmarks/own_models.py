"""The code that a user would write without unidev: moving a model, a training step, saving.

``other`` is a model like unidev's, ``there`` and ``here`` the framework's objects for two devices,
``X`` and ``y`` a batch, ``path`` a file.
"""

from __future__ import annotations

from typing import NamedTuple


class OwnModelCalls(NamedTuple):
    """Statements of one framework."""

    setup: str
    """Defines ``own_step()``."""
    move: str
    """Moves the model there and back."""
    moved_by: str
    """The name of that move, for the table."""
    save: str


OWN_MODEL_CALLS = {
    "torch": OwnModelCalls(
        """
import safetensors.torch, torch

weights = list(own_net.parameters())

def own_step():
    loss = torch.nn.functional.cross_entropy(own_net(X), y)
    gradients = torch.autograd.grad(loss, weights)
    with torch.no_grad():
        for weight, gradient in zip(weights, gradients):
            weight -= 0.1 * gradient
    return loss.detach()
""",
        move="other.to(there); other.to(here)",
        moved_by="Module.to",
        save="safetensors.torch.save_file(other.state_dict(), path)",
    ),
    "tensorflow": OwnModelCalls(
        """
import safetensors.tensorflow, tensorflow as tf

weights = [variable.value for variable in own_net.trainable_variables]

def own_step():
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=own_net(X))
        )
    for weight, gradient in zip(weights, tape.gradient(loss, weights)):
        weight.assign_sub(0.1 * gradient)
    return loss

def copied(variables, device):
    with tf.device(device):
        return [tf.raw_ops.DeepCopy(x=variable.value) for variable in variables]
""",
        # Keras has no move: this copies its arrays, and drops the copies.
        move="copied(other.variables, there); copied(other.variables, here)",
        moved_by="copying the arrays",
        save="safetensors.tensorflow.save_file("
        "{str(i): v.value.value() for i, v in enumerate(other.variables)}, path)",
    ),
    "paddle": OwnModelCalls(
        """
import paddle, safetensors.paddle

weights = own_net.parameters()

def own_step():
    loss = paddle.nn.functional.cross_entropy(own_net(X), y)
    gradients = paddle.grad(loss, weights)
    with paddle.no_grad():
        for weight, gradient in zip(weights, gradients):
            weight.subtract_(0.1 * gradient)
    return loss.detach()
""",
        move="other.to(there); other.to(here)",
        moved_by="Layer.to",
        # Transposed, as a checkpoint for every framework has it.
        save="safetensors.paddle.save_file("
        "{k: v.t().contiguous() for k, v in other.state_dict().items()}, path)",
    ),
    "mxnet": OwnModelCalls(
        """
import mxnet as mx, safetensors.numpy

weights = list(own_net.collect_params().values())
loss_function = mx.gluon.loss.SoftmaxCrossEntropyLoss()

def own_step():
    with mx.util.np_shape(True), mx.util.np_array(True):
        with mx.autograd.record():
            loss = loss_function(own_net(X), y).mean()
        loss.backward()
        for weight in weights:
            weight.data()[:] -= 0.1 * weight.grad()
    return loss
""",
        move="other.collect_params().reset_ctx(there); other.collect_params().reset_ctx(here)",
        moved_by="reset_ctx",
        save="safetensors.numpy.save_file("
        "{k: v.data().asnumpy() for k, v in other.collect_params().items()}, path)",
    ),
    "jax": OwnModelCalls(
        """
import jax, jax.numpy as jnp, safetensors.flax
from flax import nnx

def own_loss(net, X, y):
    scores = jax.nn.log_softmax(net(X))
    return -jnp.take_along_axis(scores, y.astype("int32")[:, None], axis=1).mean()

def step_of(net, X, y):
    loss, gradients = nnx.value_and_grad(own_loss)(net, X, y)
    old = nnx.state(net, nnx.Param)
    nnx.update(net, jax.tree.map(lambda x, gradient: x - 0.1 * gradient, old, gradients))
    return loss

def own_step():
    return step_of(own_net, X, y)

def moved(net, device):
    nnx.update(net, jax.device_put(nnx.state(net), device))

def named(net):
    found = nnx.to_flat_state(nnx.state(net))
    return {".".join(map(str, path)): x.get_value() for path, x in found}
""",
        move="moved(other, there); moved(other, here)",
        moved_by="nnx.update",
        save="safetensors.flax.save_file(named(other), path)",
    ),
}

OWN_COMPILED = {
    "jax": """
def our_step_of(net, X, y):
    loss, gradients = step(net, X, y)
    sgd(net, gradients, lr=0.1)
    return loss

our_compiled, own_compiled = nnx.jit(our_step_of), nnx.jit(step_of)
"""
}
"""After the setup above, and ``step``: both whole steps, compiled by the framework."""

OWN_SENDS = {"jax": "jax.device_put(x, there)"}
"""One call of the framework's that takes a tensor to another device."""

OWN_TREE_STEPS = {
    "jax": """
def layers():
    keys = jax.random.split(jax.random.key(0), 4)
    sizes = ((64, 64), (64, 64), (64, 64), (64, 10))
    return [
        {"weight": jax.random.normal(key, size) * 0.1, "bias": jnp.zeros(size[1])}
        for key, size in zip(keys, sizes)
    ]

def tree_loss(layers, X, y):
    for layer in layers:
        X = jnp.tanh(X @ layer["weight"] + layer["bias"])
    return ((X - y) ** 2).mean()

tree, X, y = jax.device_put((layers(), jnp.ones((32, 64)), jnp.ones((32, 10))), here)
step = value_and_grad(tree_loss)

def our_step(tree, X, y):
    loss, gradients = step(tree, X, y)
    return loss, sgd(tree, gradients, lr=0.1)

def own_step(tree, X, y):
    loss, gradients = jax.value_and_grad(tree_loss)(tree, X, y)
    return loss, jax.tree.map(lambda x, gradient: x - 0.1 * gradient, tree, gradients)

our_compiled, own_compiled = jax.jit(our_step), jax.jit(own_step)
"""
}
"""Where models are trees, with ``here``: two steps of four layers, eager and compiled."""
