"""NumPy's layers: callables that hold arrays, forward only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.backends.numpy_backend.nn import avg_pool2d, conv2d, flatten, linear, max_pool2d, relu
from unidev.backends.numpy_backend.simulated_array import SimulatedArray
from unidev.contract import kind_of
from unidev.contract.generator import random_numbers
from unidev.contract.layers import Layers
from unidev.errors import InvalidDataError, NotATensorError, UnsupportedOperation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from unidev.contract.layers import Array, Pair


def _unchanged(x: Array) -> Array:
    return x


class Buffers(dict[str, "Array"]):
    """Arrays of a layer that training does not change by gradients."""


class Layer:
    """A NumPy layer, called as ``layer(x)``. Computes on the device of its arrays."""

    def __init__(self, **parameters: Array | None) -> None:
        self.parameters = {
            name: np.array(array) for name, array in parameters.items() if array is not None
        }
        """The arrays that training would change. Placing replaces them here."""
        self.buffers = Buffers()
        self.is_training = True
        self.before: Callable[[Array], Array] = _unchanged
        """Applied to the input first."""

    def entries(self) -> Iterator[tuple[str, Any, Any]]:
        """Names of arrays and layers, each with the container that holds it and its key."""
        for container in (self.parameters, self.buffers):
            yield from ((name, container, name) for name in container)

    def set_mode(self, is_training: bool) -> None:
        """Set training or inference mode."""
        self.is_training = is_training

    def __call__(self, x: Array) -> Array:
        """Apply the layer to ``x``."""
        if not isinstance(x, np.ndarray):
            raise NotATensorError(f"a NumPy layer takes an array, not a {kind_of(x)}.")
        return self._forward(self.before(x))

    def __repr__(self) -> str:
        shapes = [f"{name} {self.parameters[name].shape}" for name in self.parameters]
        return f"{type(self).__name__}({', '.join(shapes)})"

    def _forward(self, x: Array) -> Array:
        raise NotImplementedError


class Dense(Layer):
    """``x @ weight.T + bias``."""

    def _forward(self, x: Array) -> Array:
        return linear(x, self.parameters["weight"], self.parameters.get("bias"))


class Conv2d(Layer):
    """Cross-correlation."""

    def __init__(self, stride: Pair, padding: Pair, **parameters: Array | None) -> None:
        super().__init__(**parameters)
        self.stride = stride
        self.padding = padding

    def _forward(self, x: Array) -> Array:
        weight, bias = self.parameters["weight"], self.parameters.get("bias")
        return conv2d(x, weight, bias, self.stride, self.padding)


class AvgPool2d(Layer):
    """Means of windows."""

    def __init__(self, kernel_size: Pair, stride: Pair) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride

    def _forward(self, x: Array) -> Array:
        return avg_pool2d(x, self.kernel_size, self.stride)


class MaxPool2d(AvgPool2d):
    """Maxima of windows."""

    def _forward(self, x: Array) -> Array:
        return max_pool2d(x, self.kernel_size, self.stride)


class Flatten(Layer):
    """``(batch, …)`` to ``(batch, rest)``."""

    def _forward(self, x: Array) -> Array:
        return flatten(x)


class Relu(Layer):
    """``max(x, 0)``."""

    def _forward(self, x: Array) -> Array:
        return relu(x)


class Tanh(Layer):
    """``numpy.tanh``."""

    def _forward(self, x: Array) -> Array:
        result: Array = np.tanh(x)
        return result


class BatchNorm(Layer):
    """Normalises axis 1; the running variance is the biased one, divided by n, not n - 1."""

    def __init__(self, features: int, momentum: float, epsilon: float) -> None:
        super().__init__(weight=np.ones(features, "f4"), bias=np.zeros(features, "f4"))
        self.buffers["running_mean"] = np.zeros(features, "f4")
        self.buffers["running_var"] = np.ones(features, "f4")
        self.momentum = momentum
        self.epsilon = epsilon

    def _forward(self, x: Array) -> Array:
        weight = self.parameters["weight"]
        if x.ndim not in (2, 4) or x.shape[1] != len(weight):
            raise InvalidDataError(
                f"batch_norm of {len(weight)} features takes (batch, {len(weight)}), or images "
                f"with {len(weight)} channels, not shape {x.shape}."
            )
        means, variances = self._statistics(x)
        along = (slice(None), *(None,) * (x.ndim - 2))
        scales = weight / np.sqrt(variances + self.epsilon)
        result: Array = (x - means[along]) * scales[along] + self.parameters["bias"][along]
        return result

    def _statistics(self, x: Array) -> tuple[Array, Array]:
        kept = self.buffers["running_mean"], self.buffers["running_var"]
        if not self.is_training:
            return kept
        others = (0, *range(2, x.ndim))
        new: tuple[Array, Array] = x.mean(others), x.var(others)
        # Compute everything first, which proves that all is on one device, then change anything.
        mixed = [
            self.momentum * old + (1 - self.momentum) * now
            for old, now in zip(kept, new, strict=True)
        ]
        for old, now in zip(kept, mixed, strict=True):
            old[...] = now
        return new


class Dropout(Layer):
    """unidev's generator selects the elements to drop."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def _forward(self, x: Array) -> Array:
        if not self.is_training:
            return x
        kept = (random_numbers("random", x.shape, "float32") >= self.rate).astype(x.dtype)
        if isinstance(x, SimulatedArray):
            kept = SimulatedArray.place(kept, x.simulated_device)
        result: Array = x * (kept / (1 - self.rate))
        return result


class Sequential(Layer):
    """One layer after the other."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        super().__init__()
        self.layers = list(layers)

    def entries(self) -> Iterator[tuple[str, Any, Any]]:
        """The layers, named by their positions."""
        return ((str(position), self.layers, position) for position in range(len(self.layers)))

    def set_mode(self, is_training: bool) -> None:
        """Set the mode of every layer."""
        super().set_mode(is_training)
        for layer in self.layers:
            layer.set_mode(is_training)

    def __repr__(self) -> str:
        return f"Sequential({', '.join(map(repr, self.layers))})"

    def _forward(self, x: Array) -> Array:
        for layer in self.layers:
            x = layer(x)
        return x


class Residual(Sequential):
    """Adds its input to the result, or what a shortcut, its last layer, makes of it."""

    def __init__(self, layers: Sequence[Layer], has_shortcut: bool) -> None:
        super().__init__(layers)
        self.has_shortcut = has_shortcut

    def _forward(self, x: Array) -> Array:
        if not self.has_shortcut:
            return x + super()._forward(x)
        *layers, shortcut = self.layers
        y = x
        for layer in layers:
            y = layer(y)
        total: Array = shortcut(x) + y
        return total


class NumpyLayers(Layers):
    """Makes the layers above."""

    avg_pool2d = AvgPool2d
    max_pool2d = MaxPool2d
    flatten = Flatten
    relu = Relu
    tanh = Tanh
    batch_norm = BatchNorm
    dropout = Dropout
    sequential = Sequential

    def dense(self, weight: Array, bias: Array | None) -> Layer:
        """A ``Dense``."""
        return Dense(weight=weight, bias=bias)

    def conv2d(self, weight: Array, bias: Array | None, stride: Pair, padding: Pair) -> Layer:
        """A ``Conv2d``."""
        return Conv2d(stride, padding, weight=weight, bias=bias)

    def residual(self, layers: Sequence[Layer], shortcut: Layer | None = None) -> Layer:
        """A ``Residual``."""
        if shortcut is None:
            return Residual(layers, False)
        return Residual([*layers, shortcut], True)

    def set_mode(self, model: Any, is_training: bool) -> None:
        """Set the mode of a layer; a container of arrays has none."""
        if not isinstance(model, Layer):
            raise UnsupportedOperation(
                "switching between training and inference",
                f"a {kind_of(model)} of arrays has no mode; pass the mode as an argument to your "
                "own functions that compute with it",
            )
        model.set_mode(is_training)

    def modes(self, model: Any) -> Iterable[tuple[Layer, bool]]:
        """The mode of every layer."""
        if isinstance(model, Layer):
            yield model, model.is_training
            for layer in getattr(model, "layers", ()):
                yield from self.modes(layer)

    def sequence(self, model: Any) -> Sequence[Layer]:
        """The layers of a ``Sequential``."""
        return model.layers if type(model) is Sequential else super().sequence(model)

    def before(self, layer: Layer, function: Callable[[Array], Array]) -> None:
        """Kept by the layer."""
        layer.before = function
