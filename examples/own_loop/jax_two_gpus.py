"""The same loop on all GPUs, by unidev."""

import unidev

unidev.set_backend("jax")  # before JAX: it has simulated GPUs from its start on
import numpy as np
import optax
from flax import nnx

values = np.random.default_rng(1).random((256, 8), np.float32)
labels = (values.sum(axis=1) > 4).astype(np.int32)
batches = [(values[i : i + 32], labels[i : i + 32]) for i in range(0, 256, 32)]

keys = nnx.Rngs(1)
net = nnx.Sequential(nnx.Linear(8, 16, rngs=keys), nnx.relu, nnx.Linear(16, 2, rngs=keys))
optimizer = nnx.Optimizer(net, optax.adam(0.01), wrt=nnx.Param)
devices = unidev.try_all_gpus()
device = devices[0]
net, optimizer = unidev.place(net, device, optimizer=optimizer)
parallel = unidev.DataParallel(net, devices)


def loss_of(net, X, y):
    return optax.softmax_cross_entropy_with_integer_labels(net(X), y).mean()


step = unidev.value_and_grad(loss_of)


def as_state(net, gradients):
    """The gradients in the shape that an ``nnx.Optimizer`` takes."""
    flat = nnx.to_flat_state(nnx.state(net, nnx.Param))
    named = [(path, each.replace(gradients[".".join(map(str, path))])) for path, each in flat]
    return nnx.from_flat_state(named)


for epoch in range(5):
    total = unidev.zeros((), device=device)
    for X, y in unidev.prefetch(batches, device):
        loss, gradients = step(parallel, X, y)
        optimizer.update(net, as_state(net, gradients))
        total += loss
    print(f"epoch {epoch}: loss {total.item() / len(batches):.4f}")

unidev.save_parameters(net, "net.safetensors")
