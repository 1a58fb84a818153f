"""``unidev.nn`` on TensorFlow: Keras's layers, created and built."""

from __future__ import annotations

import contextlib
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

import keras  # type: ignore[import-untyped]
import tensorflow as tf  # type: ignore[import-untyped]

from unidev.contract import Layers, kind_of
from unidev.errors import UnsupportedOperation
from unidev_tensorflow.nn import keras_layers
from unidev_tensorflow.nn.portable_layer import PortableLayer
from unidev_tensorflow.nn.synchronized import synchronized
from unidev_tensorflow.scopes import scope_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from unidev.contract import Array, CombineMoments, Model, Pair, Tensor

_PLAIN = {"dtype": "float32"}
"""The weights' dtype, regardless of Keras's policy."""
_EMPTY = {**_PLAIN, "kernel_initializer": "zeros"}
"""Zeros do not draw from Keras's generator."""
_FIRST = {**_PLAIN, "data_format": "channels_first"}


class TensorFlowLayers(Layers):
    """Subclasses of Keras's layers that compute on the device of their weights."""

    avg_pool2d = staticmethod(partial(keras_layers.AveragePooling2D, **_FIRST))
    max_pool2d = staticmethod(partial(keras_layers.MaxPooling2D, **_FIRST))
    flatten = staticmethod(partial(keras_layers.Flatten, **_PLAIN))
    relu = staticmethod(partial(keras_layers.ReLU, **_PLAIN))
    tanh = staticmethod(partial(keras_layers.Tanh, **_PLAIN))

    def dense(self, weight: Array, bias: Array | None) -> Model:
        """``keras.layers.Dense``."""
        layer = keras_layers.Dense(weight.shape[0], use_bias=bias is not None, **_EMPTY)
        return self._built(layer, (None, weight.shape[1]), {"weight": weight, "bias": bias})

    def conv2d(self, weight: Array, bias: Array | None, stride: Pair, padding: Pair) -> Model:
        """``keras.layers.Conv2D``."""
        outputs, inputs, *window = weight.shape
        layer = keras_layers.Conv2D(
            outputs, tuple(window), strides=stride, edge=padding, use_bias=bias is not None,
            data_format="channels_first", **_EMPTY,
        )  # fmt: skip
        return self._built(layer, (None, inputs, None, None), {"weight": weight, "bias": bias})

    def batch_norm(self, features: int, momentum: float, epsilon: float) -> Model:
        """``keras.layers.BatchNormalization``."""
        layer = keras_layers.BatchNormalization(
            axis=1, momentum=momentum, epsilon=epsilon, **_PLAIN
        )
        return self._built(layer, (None, features))

    def dropout(self, rate: float) -> Model:
        """``keras.layers.Dropout``; its generator's state is a variable, and moves too."""
        with self._on_host():
            return keras_layers.Dropout(rate, **_PLAIN)

    def sequential(self, layers: Sequence[Model]) -> Model:
        """A ``keras.Model``, which can be compiled, fitted and saved."""
        for position, layer in enumerate(layers):
            if not isinstance(layer, keras.Layer):
                raise UnsupportedOperation(
                    f"a {kind_of(layer)} at {position} of sequential",
                    "on TensorFlow it takes Keras layers",
                )
        return keras_layers.Sequential(layers)

    def residual(self, layers: Sequence[Model], shortcut: Model | None = None) -> Model:
        """A ``sequential`` that adds its input."""
        if shortcut is None:
            return keras_layers.Residual(self.sequential(layers).stack)
        return keras_layers.Residual(self.sequential([*layers, shortcut]).stack, has_shortcut=True)

    def set_mode(self, model: Model, is_training: bool) -> None:
        """Set what ``training=None`` means to the layers of ``unidev.nn``."""
        if not isinstance(model, PortableLayer):
            raise UnsupportedOperation(
                f"a mode of a {kind_of(model)}",
                "only TensorFlow models of unidev.nn have a mode: pass training=True or "
                "training=False in the call",
                "https://keras.io/api/layers/base_layer/",
            )
        for layer, _ in self.modes(model):
            layer.is_training_mode = is_training

    def modes(self, model: Model) -> Iterable[tuple[Model, bool]]:
        """The modes of layers of ``unidev.nn``."""
        if isinstance(model, PortableLayer):
            yield model, model.is_training_mode
            for layer in getattr(model, "stack", ()):
                yield from self.modes(layer)

    def sequence(self, model: Model) -> Sequence[Model]:
        """The layers of sequential nets of ``unidev.nn`` and of Keras."""
        if isinstance(model, keras_layers.Residual):
            return super().sequence(model)
        if isinstance(model, keras_layers.Sequential):
            return model.stack
        return model.layers if isinstance(model, keras.Sequential) else super().sequence(model)

    def synchronized(self, model: Model, combine: CombineMoments) -> AbstractContextManager[None]:
        """Keras's layers, and unidev's."""
        return synchronized(model, combine)

    def before(self, layer: Model, function: Callable[[Model, Tensor], Tensor]) -> None:
        """Replaces the method of this layer that computes, which then does so beside its input."""
        name = "channels_last" if isinstance(layer, PortableLayer) else "call"
        compute = getattr(layer, name)

        @wraps(compute)
        def computed(x: Tensor, *arguments: Any, **options: Any) -> Tensor:
            x = function(layer, x)
            with scope_of(x):
                return compute(x, *arguments, **options)

        setattr(layer, name, computed)

    def _built(self, layer: Any, shape: Any, weights: Any = None) -> Model:
        with self._on_host():
            layer.build(shape)
            for name, values in (weights or {}).items():
                if values is not None:
                    weight = layer.portable_weights()[name]
                    axes = range(values.ndim) if weight.axes is None else weight.axes
                    weight.variable.assign(values.transpose(_inverse(axes)))
        return layer

    @contextlib.contextmanager
    def _on_host(self) -> Iterator[None]:
        """Builds outside the caller's device scope."""
        with tf.device(self.backend.cpu.native):
            yield


def _inverse(axes: Any) -> list[int]:
    order = list(axes)
    return [order.index(axis) for axis in range(len(order))]
