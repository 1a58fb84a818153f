"""The same loop on a GPU where there is one, by unidev."""

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
device = unidev.try_gpu()  # 1
net, optimizer = unidev.place(net, device, optimizer=optimizer)  # 2


def loss_of(net, X, y):
    return optax.softmax_cross_entropy_with_integer_labels(net(X), y).mean()


@nnx.jit
def step(net, optimizer, X, y):
    loss, gradients = nnx.value_and_grad(loss_of)(net, X, y)
    optimizer.update(net, gradients)
    return loss


for epoch in range(5):
    total = unidev.zeros((), device=device)
    for X, y in unidev.prefetch(batches, device):  # 3
        loss = step(net, optimizer, X, y)
        total += loss  # 4
    print(f"epoch {epoch}: loss {total.item() / len(batches):.4f}")

unidev.save_parameters(net, "net.safetensors")  # 5
