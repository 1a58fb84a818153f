"""Layers and functions of the reference with training: NumPy's own, with gradients.

The gradients are by finite differences in float64, of whatever NumPy computes: slow, and right for
every layer without another line about it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.conformance.kit import neural
from unidev.conformance.mutants.taped import (
    Taped,
    detached,
    is_differentiable,
    is_recording,
    paused,
)
from unidev.numpy_backend.nn.functions import NumpyFunctions
from unidev.numpy_backend.nn.layers import Buffers, Dropout, Layer, NumpyLayers, Sequential
from unidev.numpy_backend.simulated_array import SimulatedArray

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Array = np.ndarray[Any, Any]


def recorded(run: Callable[..., Array], leaves: Sequence[Array]) -> Array:
    """``run(*leaves)``, differentiable by those of them that are."""
    with paused():
        y = detached(run(*leaves))
    if not is_recording() or not any(map(is_differentiable, leaves)):
        return y
    parents: list[tuple[Any, Any]] = [
        (leaf, partial(_slope, run, [np.asarray(each) for each in leaves], position, leaf))
        for position, leaf in enumerate(leaves)
        if is_differentiable(leaf)
    ]
    return Taped.make(y, parents[0][0].simulated_device, parents)


def _slope(
    run: Callable[..., Array], values: Sequence[Array], position: int, leaf: Any, slope: Array
) -> Array:
    weights = np.asarray(slope, "float64")

    def weighted(*xs: Array) -> Array:
        with paused():
            product: Array = run(*xs) * weights
            return product

    found: Array = neural.slopes(weighted, values)[position].astype("float32")
    device = leaf.simulated_device
    return SimulatedArray.place(found, device) if device.kind == "gpu" else found


class ReferenceLayers(NumpyLayers):
    """With parameters that are differentiable."""

    def dense(self, *arguments: Any) -> Layer:
        """A ``Dense``."""
        return self._trainable(super().dense(*arguments))

    def conv2d(self, *arguments: Any) -> Layer:
        """A ``Conv2d``."""
        return self._trainable(super().conv2d(*arguments))

    def batch_norm(self, *arguments: Any) -> Layer:
        """A ``BatchNorm``."""
        return self._trainable(super().batch_norm(*arguments))

    def _trainable(self, layer: Layer) -> Layer:
        cpu = self.backend.cpu
        layer.parameters = {n: Taped.make(x, cpu) for n, x in layer.parameters.items()}
        return layer


def record_layers() -> None:
    """Make every layer of NumPy record what it does, from now on, in this process."""
    plain = Layer.__call__

    def call(self: Layer, x: Array) -> Array:
        if isinstance(self, (Sequential, Dropout)):  # its layers record; what is drawn cannot be
            return plain(self, x)
        if not isinstance(x, np.ndarray):
            return plain(self, x)
        own = self.parameters, self.buffers

        def run(x: Array, *parameters: Array) -> Array:
            if all(a is b for a, b in zip(parameters, own[0].values(), strict=True)):
                return plain(self, x)
            self.parameters = dict(zip(own[0], parameters, strict=True))
            self.buffers = Buffers({n: np.array(b, "float64") for n, b in own[1].items()})
            try:
                return plain(self, x)
            finally:
                self.parameters, self.buffers = own

        return recorded(run, [x, *own[0].values()])

    Layer.__call__ = call  # type: ignore[method-assign]


class ReferenceFunctions(NumpyFunctions):
    """NumPy's, recorded."""

    def linear(self, x: Array, weight: Array, bias: Array | None) -> Array:
        """By all three."""
        return self._recorded("linear", (x, weight, bias))

    def conv2d(self, x: Array, weight: Array, bias: Array | None, *options: Any) -> Array:
        """By all three."""
        return self._recorded("conv2d", (x, weight, bias), *options)

    def avg_pool2d(self, x: Array, *options: Any) -> Array:
        """By ``x``."""
        return self._recorded("avg_pool2d", (x,), *options)

    def relu(self, x: Array) -> Array:
        """By ``x``."""
        return self._recorded("relu", (x,))

    def tanh(self, x: Array) -> Array:
        """By ``x``."""
        return self._recorded("tanh", (x,))

    def softmax_cross_entropy(self, logits: Array, labels: Array) -> Array:
        """By ``logits``."""
        plain = super().softmax_cross_entropy
        on_host = np.asarray(labels)

        def run(values: Array) -> Array:
            return plain(values, labels if values is logits else on_host)

        return recorded(run, (logits,))

    def mean_squared_error(self, predictions: Array, targets: Array) -> Array:
        """By both."""
        return self._recorded("mean_squared_error", (predictions, targets))

    def _recorded(self, name: str, tensors: Sequence[Array | None], *options: Any) -> Array:
        plain = getattr(super(), name)
        given = [x for x in tensors if x is not None]
        missing = [None] * (len(tensors) - len(given))
        return recorded(lambda *xs: plain(*xs, *missing, *options), given)
