"""NumPy's layers: callables that hold arrays, forward only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.backends.numpy_backend.simulated_array import SimulatedArray
from unidev.contract import function_layers, kind_of
from unidev.contract.generator import random_numbers
from unidev.errors import NotATensorError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unidev.contract.layers import Array


class Layer(function_layers.Layer):
    """A NumPy layer. Computes on the device of its arrays, which placing replaces."""

    def __call__(self, x: Array) -> Array:
        """Apply the layer to ``x``."""
        if not isinstance(x, np.ndarray):
            raise NotATensorError(f"a NumPy layer takes an array, not a {kind_of(x)}.")
        result: Array = super().__call__(x)
        return result

    def entries(self) -> Iterator[tuple[str, Any, Any]]:
        """Names of arrays and layers, each with the container that holds it and its key."""
        held = (np.ndarray, function_layers.Layer)
        return ((name, self, name) for name, x in vars(self).items() if isinstance(x, held))

    def __getitem__(self, name: str) -> Any:
        return vars(self)[name]

    def __setitem__(self, name: str, value: Any) -> None:
        vars(self)[name] = value


class NumpyLayers(function_layers.FunctionLayers):
    """In float32, or wider where the input is."""

    layer = Layer

    def parameter(self, values: Array) -> Array:
        """A copy."""
        return np.array(values)

    def moments(self, x: Array) -> tuple[Array, Array]:
        """``mean`` and ``var``."""
        others = (0, *range(2, x.ndim))
        return x.mean(others), x.var(others)

    def renew(self, buffer: Array, value: Array) -> None:
        """In its own memory."""
        buffer[...] = value

    def dropped(self, x: Array, rate: float) -> Array:
        """By unidev's generator."""
        kept = (random_numbers("random", x.shape, "float32") >= rate).astype(x.dtype)
        if isinstance(x, SimulatedArray):
            kept = SimulatedArray.place(kept, x.simulated_device)
        result: Array = x * (kept / (1 - rate))
        return result
