"""PyTorch's MNIST example as of 2018: its net, its step, and images drawn for it.

``unidev bench --only images`` times a step; ``examples/cpu_or_gpu.py`` trains for epochs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unidev import nn
from unidev.models.gradients import sgd, value_and_grad
from unidev.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable

    Array = np.ndarray[Any, Any]
    Model = Any
    Tensor = Any

BATCH, LEARNING_RATE, MOMENTUM = 64, 0.01, 0.5
IMAGES = 60_000
CLASSES, PIXELS = 10, 28
MEAN, DEVIATION = 0.1307, 0.3081
"""Those of MNIST's pixels, from 0 to 1."""


def make_net() -> Model:
    """Two convolutions and two dense layers; without dropout, which each framework draws itself.

    https://github.com/pytorch/examples/blob/0.4/mnist/main.py
    """
    return nn.sequential(
        nn.conv2d(1, 10, 5), nn.max_pool2d(2), nn.relu(),
        nn.conv2d(10, 20, 5), nn.max_pool2d(2), nn.relu(),
        nn.flatten(), nn.dense(320, 50), nn.relu(), nn.dense(50, CLASSES),
    )  # fmt: skip


def draw(count: int, seed: int) -> tuple[Array, Array]:
    """Images of 28 by 28 and their labels: a picture of noise for each class, and more noise."""
    generator = np.random.default_rng([seed, 2018])
    pictures = generator.standard_normal((CLASSES, 1, PIXELS, PIXELS), dtype="float32")
    labels = generator.integers(CLASSES, size=count)
    noise = generator.standard_normal((count, 1, PIXELS, PIXELS), dtype="float32")
    return (pictures[labels] + 2 * noise) / np.float32(5**0.5), labels.astype("int64")


def loss_of(net: Model, images: Tensor, labels: Tensor) -> Tensor:
    """The loss that training minimizes."""
    return functional.softmax_cross_entropy(net(images), labels)


def stepper(net: Model) -> Callable[[Tensor, Tensor], Tensor]:
    """A function that makes a step of SGD with momentum, as PyTorch defines it; returns the loss.

    It runs inside ``with device:`` of the net's device.
    """
    gradients_of = value_and_grad(loss_of)
    velocity: dict[str, Tensor] = {}

    def step(images: Tensor, labels: Tensor) -> Tensor:
        loss, gradients = gradients_of(net, images, labels)
        for name, gradient in gradients.items():
            old = velocity.get(name)
            velocity[name] = gradient if old is None else old * MOMENTUM + gradient
        sgd(net, velocity, lr=LEARNING_RATE)
        return loss

    return step
