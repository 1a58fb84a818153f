"""Programs of others: trained on a simulated GPU, saved, loaded, transfers counted by hand."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import equinox
import jax
import jax.numpy as jnp
import keras
import numpy as np
import optax
import pytest
from flax import linen, nnx

import unidev

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Loss = Callable[..., Any]

GPU = unidev.gpu(1)
ROWS = np.linspace(-1, 1, 24, dtype=np.float32).reshape(6, 4)
TARGETS = ROWS.sum(axis=1, keepdims=True)
STEPS = 4


class Classifier(linen.Module):
    @linen.compact
    def __call__(self, x: Any) -> Any:
        return linen.Dense(1)(linen.relu(linen.Dense(8)(x)))


def linear_regression() -> tuple[Any, Loss]:
    """Optax's own first example: a dict of arrays."""
    start = {"w": jnp.zeros((4, 1)), "b": jnp.zeros(1)}
    return start, lambda params, x: x @ params["w"] + params["b"]


def equinox_mlp() -> tuple[Any, Loss]:
    net = equinox.nn.MLP(4, 1, 8, 2, key=jax.random.key(1))
    return net, lambda net, x: jax.vmap(net)(x)


def linen_classifier() -> tuple[Any, Loss]:
    params = Classifier().init(jax.random.key(0), ROWS)["params"]
    return params, lambda params, x: Classifier().apply({"params": params}, x)


@pytest.mark.parametrize("program", [linear_regression, equinox_mlp, linen_classifier])
def test_a_tree_is_placed_trained_by_optax_saved_and_loaded(
    program: Callable[[], tuple[Any, Loss]], tmp_path: Path
) -> None:
    start, outputs_of = program()
    optimizer = optax.adam(0.05)
    is_array = equinox.is_array
    state = optimizer.init(equinox.filter(start, is_array))
    net, state = unidev.place(start, GPU, optimizer=state)
    step = unidev.value_and_grad(lambda net, x, y: ((outputs_of(net, x) - y) ** 2).mean())
    losses = []
    with unidev.trace_transfers() as trace:
        for _ in range(STEPS):
            x, y = unidev.device_put((ROWS, TARGETS), GPU)  # two transfers
            loss, gradients = step(net, x, y)
            updates, state = optimizer.update(equinox.filter(gradients, is_array), state)
            net = equinox.apply_updates(net, updates)
            losses.append(loss.item())  # one
    directions = [(str(each.source), str(each.target)) for each in trace.transfers]
    # Two of the batch, then three of Optax's counter: its eager `safe_increment` compares the step
    # with a limit, adds a one and chooses the limit, all of them arrays on JAX's default device.
    assert directions == [*[("cpu:0", "gpu:1")] * 5, ("gpu:1", "cpu:0")] * STEPS
    counted = [each for each in trace.transfers if each.operation.endswith("mixed operands")]
    assert [each.nbytes for each in counted] == [4] * 3 * STEPS
    assert losses[-1] < losses[0]
    assert str(unidev.device_of(net)) == "gpu:1"
    unidev.save_parameters(net, tmp_path / "net.npz")
    loaded = unidev.load_parameters(unidev.place(start, GPU), tmp_path / "net.npz")
    given = unidev.copy_to(x, GPU)
    np.testing.assert_array_equal(outputs_of(loaded, given), outputs_of(net, given))


class Transformer(nnx.Module):
    """One block of attention, as in Flax's own examples."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.embed = nnx.Embed(16, 8, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(2, 8, decode=False, rngs=rngs)
        self.norm = nnx.LayerNorm(8, rngs=rngs)
        self.head = nnx.Linear(8, 16, rngs=rngs)

    def __call__(self, tokens: Any) -> Any:
        x = self.embed(tokens)
        return self.head(self.norm(x + self.attention(x)))


def test_a_transformer_of_nnx_is_placed_trained_saved_and_loaded(tmp_path: Path) -> None:
    net = Transformer(nnx.Rngs(0))
    optimizer = nnx.Optimizer(net, optax.adam(0.01), wrt=nnx.Param)
    unidev.place(net, GPU, optimizer=optimizer)
    tokens = np.arange(12, dtype=np.int32).reshape(2, 6)

    def loss_of(net: Any, tokens: Any) -> Any:
        logits = net(tokens[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

    @nnx.jit
    def step(net: Any, optimizer: Any, x: Any) -> Any:
        loss, gradients = nnx.value_and_grad(loss_of)(net, x)
        optimizer.update(net, gradients)
        return loss

    losses = []
    with unidev.trace_transfers() as trace:
        for _ in range(STEPS):
            x = unidev.device_put(tokens, GPU)  # one transfer
            losses.append(step(net, optimizer, x).item())  # one
    directions = [(str(each.source), str(each.target)) for each in trace.transfers]
    assert directions == [("cpu:0", "gpu:1"), ("gpu:1", "cpu:0")] * STEPS
    assert losses[-1] < losses[0]
    assert str(unidev.device_of(net)) == "gpu:1"
    unidev.save_parameters(net, tmp_path / "net.npz")
    other = Transformer(nnx.Rngs(1))
    unidev.place(other, GPU)
    unidev.load_parameters(other, tmp_path / "net.npz")
    np.testing.assert_array_equal(other(x), net(x))


def convnet() -> Any:
    """As in Keras's own example `mnist_convnet`, smaller, with a normalisation."""
    net = keras.Sequential(
        [
            keras.Input(shape=(8, 8, 1)),
            keras.layers.Conv2D(4, kernel_size=(3, 3), activation="relu"),
            keras.layers.MaxPooling2D(pool_size=(2, 2)),
            keras.layers.BatchNormalization(),
            keras.layers.Flatten(),
            keras.layers.Dropout(0.1),
            keras.layers.Dense(3, activation="softmax"),
        ]
    )
    adam = keras.optimizers.Adam(0.05)
    net.compile(loss="categorical_crossentropy", optimizer=adam, metrics=["accuracy"])
    return net


def test_a_convnet_of_keras_is_placed_fitted_saved_and_loaded(tmp_path: Path) -> None:
    keras.utils.set_random_seed(0)
    net = convnet()
    net.optimizer.build(net.trainable_variables)  # or its state would move in the first step
    unidev.place(net, GPU)
    digits = np.arange(12) % 3
    labels = keras.utils.to_categorical(digits, 3)
    images = np.zeros((12, 8, 8, 1), np.float32)
    for image, digit in zip(images, digits, strict=True):
        image[2 * digit : 2 * digit + 3] = 1
    with unidev.trace_transfers() as trace:
        history = net.fit(images, labels, batch_size=4, epochs=STEPS, shuffle=False, verbose=0)
    moved = Counter((str(x.source), str(x.target), x.nbytes) for x in trace.transfers)
    assert moved == {
        ("cpu:0", "gpu:1", 4 * 64 * 4): 3 * STEPS,  # the images of each of three batches,
        ("cpu:0", "gpu:1", 4 * 3 * 4): 3 * STEPS,  # its labels,
        ("cpu:0", "gpu:1", 4): 4 * STEPS,  # totals and counts of two metrics, set to 0 by Keras,
        ("gpu:1", "cpu:0", 4): 2 * STEPS,  # and the two that it reads after each epoch
    }
    assert history.history["loss"][-1] < history.history["loss"][0]
    state = [*net.variables, *net.optimizer.variables, *net.metrics_variables]
    assert {str(unidev.device_of(x)) for x in state} == {"gpu:1"}
    assert all(x.value.committed for x in state)
    unidev.save_parameters(net, tmp_path / "net.npz")
    other = convnet()
    unidev.place(other, GPU)
    unidev.load_parameters(other, tmp_path / "net.npz")
    x = unidev.device_put(images, GPU)
    np.testing.assert_array_equal(other(x), net(x))
