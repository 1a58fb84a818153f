"""Flax modules behind ``unidev.nn``, with the portable layouts: channels and outputs first."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.contract import Layers, kind_of
from unidev.errors import UnsupportedOperation
from unidev_jax.framework import jax
from unidev_jax.models.flax import nnx
from unidev_jax.models.tree import modules_in
from unidev_jax.nn import functions
from unidev_jax.nn.synchronized import synchronized
from unidev_jax.variables import assigning, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

    from unidev.contract import Array, CombineMoments, Model, Pair, Tensor

_FLAGS = ("use_running_average", "deterministic")
"""Attributes by which Flax's modules have a mode; both are False in training mode."""


class Dense(nnx.Module):  # type: ignore[misc]
    """``x @ weight.T + bias``."""

    def __init__(self, weight: Any, bias: Any) -> None:
        self.weight = nnx.Param(weight)
        self.bias = nnx.data(None if bias is None else nnx.Param(bias))

    def __call__(self, x: Tensor) -> Tensor:
        """``functions.linear``."""
        return functions.linear(plain(x), plain(self.weight), plain(self.bias))


class Conv2d(nnx.Module):  # type: ignore[misc]
    """A convolution of images."""

    def __init__(self, weight: Any, bias: Any, stride: Pair, padding: Pair) -> None:
        self.weight = nnx.Param(weight)
        self.bias = nnx.data(None if bias is None else nnx.Param(bias))
        self.stride, self.padding = stride, padding

    def __call__(self, x: Tensor) -> Tensor:
        """``functions.conv2d``."""
        weight, bias = plain(self.weight), plain(self.bias)
        return functions.conv2d(plain(x), weight, bias, self.stride, self.padding)


class AvgPool2d(nnx.Module):  # type: ignore[misc]
    """Means of windows."""

    def __init__(self, kernel_size: Pair, stride: Pair) -> None:
        self.kernel_size, self.stride = kernel_size, stride

    def __call__(self, x: Tensor) -> Tensor:
        """``functions.avg_pool2d``."""
        return functions.avg_pool2d(plain(x), self.kernel_size, self.stride)


class MaxPool2d(nnx.Module):  # type: ignore[misc]
    """Maxima of windows."""

    def __init__(self, kernel_size: Pair, stride: Pair) -> None:
        self.kernel_size, self.stride = kernel_size, stride

    def __call__(self, x: Tensor) -> Tensor:
        """``functions.max_pool2d``."""
        return functions.max_pool2d(plain(x), self.kernel_size, self.stride)


class Flatten(nnx.Module):  # type: ignore[misc]
    """``(batch, …)`` to ``(batch, rest)``."""

    def __call__(self, x: Tensor) -> Tensor:
        """``functions.flatten``."""
        return functions.flatten(plain(x))


class Relu(nnx.Module):  # type: ignore[misc]
    """``max(x, 0)``."""

    def __call__(self, x: Tensor) -> Tensor:
        """``functions.relu``."""
        return functions.relu(plain(x))


class Tanh(nnx.Module):  # type: ignore[misc]
    """``tanh(x)``."""

    def __call__(self, x: Tensor) -> Tensor:
        """``functions.tanh``."""
        return functions.tanh(plain(x))


class BatchNorm(nnx.Module):  # type: ignore[misc]
    """Normalises axis 1; ``train()`` and ``eval()`` set its mode as that of Flax's own."""

    def __init__(self, arrays: Sequence[Any], momentum: float, epsilon: float) -> None:
        weight, bias, mean, variance = arrays
        self.weight, self.bias = nnx.Param(weight), nnx.Param(bias)
        self.running_mean, self.running_var = nnx.BatchStat(mean), nnx.BatchStat(variance)
        self.momentum, self.epsilon = momentum, epsilon
        self.use_running_average = False

    def __call__(self, x: Tensor) -> Tensor:
        """Updates the running statistics, in training mode."""
        x = plain(x)
        if x.ndim not in (2, 4):
            raise ValueError(
                "batch_norm takes (batch, features) or (batch, channels, height, width), not an "
                f"input of shape {x.shape}"
            )
        if self.use_running_average:
            mean, variance = plain(self.running_mean), plain(self.running_var)
        else:
            mean, variance = self.moments(x)
            self._count(self.running_mean, mean)
            self._count(self.running_var, variance)
        weight, bias = plain(self.weight), plain(self.bias)
        return functions.normalized(x, mean, variance, weight, bias, self.epsilon)

    def moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """``functions.batch_moments``; inside ``synchronized``, those of all workers."""
        found: tuple[Tensor, Tensor] = functions.batch_moments(x)
        return found

    def _count(self, running: Any, new: Any) -> None:
        kept = functions.running(plain(running), jax.lax.stop_gradient(new), self.momentum)
        with assigning():
            running.set_value(kept)


class Sequential(nnx.List):  # type: ignore[misc]
    """A list of layers that calls one after the other: their names are their positions."""

    def __call__(self, x: Tensor) -> Tensor:
        """Each layer with the result of the last."""
        for layer in self:
            x = layer(x)
        return x


class Residual(nnx.List):  # type: ignore[misc]
    """Adds its input to the result, or what a shortcut, its last layer, makes of it."""

    def __init__(self, layers: Sequence[Any], has_shortcut: bool) -> None:
        super().__init__(layers)
        self.has_shortcut = has_shortcut

    def __call__(self, x: Tensor) -> Tensor:
        """``shortcut(x) + layers(x)``."""
        layers = list(self)
        shortcut = layers.pop() if self.has_shortcut else plain
        y = x
        for layer in layers:
            y = layer(y)
        return shortcut(x) + y


class JaxLayers(Layers):
    """Modules of ``flax.nnx``."""

    avg_pool2d = AvgPool2d
    max_pool2d = MaxPool2d
    flatten = Flatten
    relu = Relu
    tanh = Tanh

    def dense(self, weight: Array, bias: Array | None) -> Model:
        """``Dense``."""
        return Dense(self._on_host(weight), self._on_host(bias))

    def conv2d(self, weight: Array, bias: Array | None, stride: Pair, padding: Pair) -> Model:
        """``Conv2d``."""
        return Conv2d(self._on_host(weight), self._on_host(bias), stride, padding)

    def batch_norm(self, features: int, momentum: float, epsilon: float) -> Model:
        """``BatchNorm``."""
        ones, zeros = np.ones(features, np.float32), np.zeros(features, np.float32)
        arrays = [self._on_host(each) for each in (ones, zeros, zeros, ones)]
        return BatchNorm(arrays, momentum, epsilon)

    def dropout(self, rate: float) -> Model:
        """``nnx.Dropout``, with a generator of its own, seeded by the system."""
        with jax.default_device(self.backend.cpu.native):
            return nnx.Dropout(rate, rngs=nnx.Rngs(secrets.randbits(31)))

    def sequential(self, layers: Sequence[Model]) -> Model:
        """``Sequential``."""
        return Sequential(layers)

    def residual(self, layers: Sequence[Model], shortcut: Model | None = None) -> Model:
        """``Residual``."""
        if shortcut is None:
            return Residual(layers, has_shortcut=False)
        return Residual([*layers, shortcut], has_shortcut=True)

    def set_mode(self, model: Model, is_training: bool) -> None:
        """``train`` and ``eval`` of Flax's modules, whose flags they set."""
        _check_module(model)
        for module, name in _flags(model):
            setattr(module, name, not is_training)

    def modes(self, model: Model) -> Iterable[tuple[Model, bool]]:
        """The mode of each module that has a flag."""
        _check_module(model)
        return [(module, not getattr(module, name)) for module, name in _flags(model)]

    def sequence(self, model: Model) -> Sequence[Model]:
        """The layers of ``unidev.nn.sequential`` and of ``nnx.Sequential``."""
        if isinstance(model, Sequential):
            return list(model)
        if type(model) is nnx.Sequential:
            return list(model.layers)
        return super().sequence(model)

    def before(self, layer: Model, function: Callable[[Model, Tensor], Tensor]) -> None:
        """Gives the layer a class of its own, whose ``__call__`` calls ``function`` first."""
        kind = type(layer)

        def call(self: Any, x: Any, *arguments: Any, **options: Any) -> Any:
            return kind.__call__(self, function(self, x), *arguments, **options)

        metaclass: Any = type(kind)
        own = metaclass(kind.__name__, (kind,), {"__call__": call, "__module__": kind.__module__})
        object.__setattr__(layer, "__class__", own)

    def synchronized(self, model: Model, combine: CombineMoments) -> AbstractContextManager[None]:
        """``unidev_jax.nn.synchronized``, for layers of Flax's and of ``unidev.nn``."""
        return synchronized(model, combine, BatchNorm)

    def _on_host(self, values: Array | None) -> Any:
        if values is None:
            return None
        return self.backend.from_numpy(values, values.dtype, self.backend.cpu)


def _check_module(model: Any) -> None:
    if not isinstance(model, nnx.Module):
        raise UnsupportedOperation(
            f"a mode of a {kind_of(model)}",
            "only modules of flax.nnx have one: pass what it should do in the call",
        )


def _flags(model: Any) -> Iterable[tuple[Any, str]]:
    for module in modules_in(model):
        for name in _FLAGS:
            if isinstance(vars(module).get(name), bool):
                yield module, name
