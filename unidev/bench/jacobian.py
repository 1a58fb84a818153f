"""The Jacobian of a net at a batch: row by row, a row for all samples at once, and forwards.

``unidev bench --only jacobian`` times a part of it; ``examples/jacobian.py`` runs it whole.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unidev.models.gradients import value_and_grad
from unidev.nn import functional
from unidev.tensors.creating import array, ones, randn, zeros

if TYPE_CHECKING:
    from collections.abc import Iterator

    Tensor = Any
    Layer = tuple[Tensor, Tensor]

SIZES = (1, 20, 20, 400)
OUTPUTS = SIZES[-1]
BATCHES = (100, 1000)


class Net(NamedTuple):
    """The weights and biases of each layer, and an input, on one device."""

    layers: list[Layer]
    x: Tensor
    """Its shape is ``(batch, 1)``."""

    @property
    def batch(self) -> int:
        """The number of samples."""
        return int(self.x.shape[0])


def make(batch: int) -> Net:
    """Drawn by unidev's generator, on the device of the innermost ``with device:``."""
    layers = [
        (randn((outputs, inputs)) * float(inputs**-0.5), zeros(outputs))
        for inputs, outputs in pairwise(SIZES)
    ]
    return Net(layers, randn((batch, SIZES[0])))


def outputs_of(x: Tensor, layers: list[Layer]) -> Tensor:
    """``(batch, 400)``."""
    for weight, bias in layers[:-1]:
        x = functional.tanh(functional.linear(x, weight, bias))
    return functional.linear(x, *layers[-1])


def forwards(net: Net) -> Tensor:
    """All derivatives, of shape ``(batch, 400)``, in one pass: forward mode, by hand.

    Beside each value goes its derivative by the sample's input, which is one number. So this takes
    about twice as long as computing the outputs.
    """
    x, tangent = net.x, ones(tuple(net.x.shape))
    for weight, bias in net.layers[:-1]:
        x = functional.tanh(functional.linear(x, weight, bias))
        tangent = (x * x * -1.0 + 1.0) * functional.linear(tangent, weight)
    return functional.linear(tangent, net.layers[-1][0])


def rows(net: Net) -> Iterator[Tensor]:
    """Each row of the Jacobian: one output of one sample by all inputs, sample after sample.

    Reverse mode: each is a backward pass through the whole batch, of which all but one sample's
    results are zeros. Each repeats the forward pass.
    """
    by_x = value_and_grad(_chosen)
    columns = _units(OUTPUTS, as_rows=False)
    for sample in _units(net.batch, as_rows=True):
        chosen = array(sample)
        for column in columns:
            yield by_x(net.x, net.layers, chosen, array(column))[1]


def summed(net: Net) -> list[Tensor]:
    """One output of all samples by their own inputs, of shape ``(batch, 1)``, for each of 400.

    An output depends on its own sample's input alone, so the sum over the samples has all their
    derivatives, as ``vmap(jacrev)`` finds them: 400 backward passes, whatever the batch.
    """
    by_x, all_samples = value_and_grad(_chosen), ones((1, net.batch))
    return [
        by_x(net.x, net.layers, all_samples, array(column))[1]
        for column in _units(OUTPUTS, as_rows=False)
    ]


def _chosen(x: Tensor, layers: list[Layer], samples: Tensor, output: Tensor) -> Tensor:
    return samples @ outputs_of(x, layers) @ output


def _units(size: int, *, as_rows: bool) -> Any:
    """The rows of an identity, each as a matrix of one row or of one column."""
    identity = np.eye(size, dtype="float32")
    return identity[:, None, :] if as_rows else identity[:, :, None]
