"""Keras's layers for ``unidev.nn``: channels first, on the device of their weights.

Keras computes channels last on a CPU, and TensorFlow on CPU:0 whatever the operands' device. So
each layer opens the scope itself, and converts images around its ``channels_last``; a
``Sequential`` does both once, at its ends.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import keras  # type: ignore[import-untyped]
import tensorflow as tf  # type: ignore[import-untyped]

from unidev.errors import InvalidDataError
from unidev_tensorflow.nn.images import (
    avg_pool2d_last,
    check_images,
    check_window,
    conv2d_last,
    converted,
    dense,
    flatten_last,
    is_image,
    max_pool2d_last,
    shape_outside,
    to_first,
    to_last,
)
from unidev_tensorflow.nn.portable_layer import PortableLayer, Weight, WeightlessLayer
from unidev_tensorflow.scopes import scope_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unidev.contract import Tensor

    Shape = tuple[int | None, ...]

registered = keras.saving.register_keras_serializable(package="unidev")


@registered
class Dense(PortableLayer, keras.layers.Dense):  # type: ignore[misc]
    """Dense layer on the last axis."""

    def build(self, input_shape: Shape) -> None:
        """For any number of axes; Keras's own requires two."""
        super().build(input_shape)
        self.input_spec = keras.InputSpec(min_ndim=1, axes={-1: input_shape[-1]})

    def channels_last(self, x: Tensor, training: bool) -> Tensor:  # noqa: ARG002
        """In channels-first order the last axis of an image is its width."""
        bias = None if self.bias is None else self.bias.value
        if is_image(x):
            return to_last(dense(to_first(x), self.kernel.value, bias))
        return dense(x, self.kernel.value, bias)

    def portable_weights(self) -> Mapping[str, Weight]:
        """The kernel is ``(inputs, outputs)``."""
        return _weight_and_bias(self, (1, 0))

    def home(self) -> Any:
        """The kernel."""
        return self.kernel


@registered
class Conv2D(PortableLayer, keras.layers.Conv2D):  # type: ignore[misc]
    """Pads with ``edge`` zeros on either side, which Keras's own cannot."""

    def __init__(self, *arguments: Any, edge: tuple[int, int] = (0, 0), **options: Any) -> None:
        super().__init__(*arguments, **options)
        height, width = edge
        self.edge = (height, width)

    def channels_last(self, x: Tensor, training: bool) -> Tensor:  # noqa: ARG002
        """A convolution."""
        kernel = self.kernel.shape
        if self.groups == 1:  # within a Sequential, Keras's own InputSpec is not checked
            check_images(x, kernel[2])
        check_window(x, kernel[:2], self.edge)
        bias = None if self.bias is None else self.bias.value
        return conv2d_last(x, self.kernel.value, bias, self.strides, self.edge)

    def portable_weights(self) -> Mapping[str, Weight]:
        """The kernel is HWIO."""
        return _weight_and_bias(self, (3, 2, 0, 1))

    def home(self) -> Any:
        """The kernel."""
        return self.kernel

    def compute_output_shape(self, input_shape: Shape) -> Any:
        """Keras's, for the padded image."""
        batch, channels, *sizes = input_shape
        grown = [
            None if size is None else size + 2 * edge
            for size, edge in zip(sizes, self.edge, strict=True)
        ]
        return super().compute_output_shape((batch, channels, *grown))

    def get_config(self) -> dict[str, Any]:
        """Keras's, with the edge."""
        return {**super().get_config(), "edge": self.edge}


@registered
class AveragePooling2D(WeightlessLayer, keras.layers.AveragePooling2D):  # type: ignore[misc]
    """Over complete windows."""

    def channels_last(self, x: Tensor, training: bool) -> Tensor:  # noqa: ARG002
        """Means."""
        check_images(x)
        check_window(x, self.pool_size)
        return avg_pool2d_last(x, self.pool_size, self.strides)


@registered
class MaxPooling2D(WeightlessLayer, keras.layers.MaxPooling2D):  # type: ignore[misc]
    """Over complete windows."""

    def channels_last(self, x: Tensor, training: bool) -> Tensor:  # noqa: ARG002
        """Maxima."""
        check_images(x)
        check_window(x, self.pool_size)
        return max_pool2d_last(x, self.pool_size, self.strides)


@registered
class Flatten(WeightlessLayer, keras.layers.Flatten):  # type: ignore[misc]
    """Flattens in the order channels, height, width."""

    def channels_last(self, x: Tensor, training: bool) -> Tensor:  # noqa: ARG002
        """Converts to channels first, then flattens."""
        return flatten_last(x)


@registered
class ReLU(WeightlessLayer, keras.layers.ReLU):  # type: ignore[misc]
    """``max(x, 0)``."""

    takes_any_layout = True

    def channels_last(self, x: Tensor, training: bool) -> Tensor:  # noqa: ARG002
        """TensorFlow's."""
        return tf.nn.relu(x)


@registered
class Tanh(WeightlessLayer, keras.Layer):  # type: ignore[misc]
    """``tanh(x)``."""

    takes_any_layout = True

    def channels_last(self, x: Tensor, training: bool) -> Tensor:  # noqa: ARG002
        """TensorFlow's."""
        return tf.tanh(x)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        """The same."""
        return input_shape


@registered
class BatchNormalization(PortableLayer, keras.layers.BatchNormalization):  # type: ignore[misc]
    """Normalises axis 1; the running variance is the biased one, as in Keras."""

    def build(self, input_shape: Shape) -> None:
        """For inputs of two or four axes."""
        super().build(input_shape)
        self.input_spec = None

    def channels_last(self, x: Tensor, training: bool) -> Tensor:
        """Keras's own formulas, on the last axis."""
        features = self.gamma.shape[0]
        if x.shape.rank not in (2, 4) or x.shape[-1] not in (None, features):
            raise InvalidDataError(
                f"batch_norm of {features} features takes (batch, {features}), or images with as "
                f"many channels, and this is {shape_outside(x)}."
            )
        mean, variance = self.moving_mean.value, self.moving_variance.value
        if training:
            mean, variance = self._moments(x, None)
            for moving, new in ((self.moving_mean, mean), (self.moving_variance, variance)):
                moving.assign(moving.value * self.momentum + new * (1.0 - self.momentum))
        offset, scale = self.beta.value, self.gamma.value
        return tf.nn.batch_normalization(x, mean, variance, offset, scale, self.epsilon)

    def _moments(self, inputs: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        """Those of the last axis."""
        found: tuple[Tensor, Tensor] = tf.nn.moments(inputs, list(range(inputs.shape.rank - 1)))
        return found

    def portable_weights(self) -> Mapping[str, Weight]:
        """All vectors."""
        return {
            "weight": Weight(self.gamma),
            "bias": Weight(self.beta),
            "running_mean": Weight(self.moving_mean, is_parameter=False),
            "running_var": Weight(self.moving_variance, is_parameter=False),
        }

    def home(self) -> Any:
        """The scale."""
        return self.gamma


@registered
class Dropout(WeightlessLayer, keras.layers.Dropout):  # type: ignore[misc]
    """Keras's own, except for the mode."""

    takes_any_layout = True

    def channels_last(self, x: Tensor, training: bool) -> Tensor:
        """Draws from the layer's own Keras generator."""
        return keras.layers.Dropout.call(self, x, training=training)


@registered
class Sequential(PortableLayer, keras.Model):  # type: ignore[misc]
    """A sequence of the layers above, and of other Keras layers, which get channels first."""

    def __init__(self, layers: Any, **options: Any) -> None:
        super().__init__(dtype="float32", **options)  # regardless of Keras's policy
        self.stack = list(layers)
        # tf.train.Checkpoint finds attributes, but does not look into Keras's lists.
        for index, layer in enumerate(self.stack):
            setattr(self, f"layer_{index}", layer)
        self.built = all(layer.built for layer in self.stack)

    def channels_last(self, x: Tensor, training: bool | None) -> Tensor:
        """Without an explicit mode, each of our layers uses its own."""
        return self._through(self.stack, x, training)

    def _through(self, layers: Any, x: Tensor, training: bool | None) -> Tensor:
        for layer in layers:
            if isinstance(layer, Sequential):
                x = layer.channels_last(x, training)
            elif isinstance(layer, PortableLayer):
                x = layer.channels_last(x, layer.is_training_mode if training is None else training)
            else:
                x = self._call_other(layer, x, training)
        return x

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        """As for a layer, but each layer's own mode is read when it runs."""
        with scope_of(inputs if (home := self.home()) is None else home):
            return converted(lambda x: self.channels_last(x, training), inputs)

    def home(self) -> Any:
        """The home of the first layer that has one."""
        for layer in self.stack:
            home = (
                layer.home()
                if isinstance(layer, PortableLayer)
                else next(iter(layer.weights), None)
            )
            if home is not None:
                return home
        return None

    def get_config(self) -> dict[str, Any]:
        """The layers."""
        serialize = keras.saving.serialize_keras_object
        return {"name": self.name, "layers": [serialize(layer) for layer in self.stack]}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """The layers, built, with arbitrary weights."""
        read = keras.saving.deserialize_keras_object
        layers = [read(layer, custom_objects=custom_objects) for layer in config["layers"]]
        return cls(layers, name=config["name"])

    def _call_other(self, layer: Any, x: Tensor, training: bool | None) -> Tensor:
        options = {}
        if "training" in inspect.signature(layer.call).parameters:
            options["training"] = self.is_training_mode if training is None else training
        y = layer(to_first(x) if is_image(x) else x, **options)
        return to_last(y) if is_image(y) else y


@registered
class Residual(Sequential):
    """Adds its input to the result, or what a shortcut, its last layer, makes of it."""

    def __init__(self, layers: Any, *, has_shortcut: bool = False, **options: Any) -> None:
        super().__init__(layers, **options)
        self.has_shortcut = has_shortcut

    def channels_last(self, x: Tensor, training: bool | None) -> Tensor:
        """``shortcut(x) + layers(x)``."""
        if not self.has_shortcut:
            return x + super().channels_last(x, training)
        *layers, shortcut = self.stack
        return self._through([shortcut], x, training) + self._through(layers, x, training)

    def get_config(self) -> dict[str, Any]:
        """The layers, and whether the last one is the shortcut."""
        return {**super().get_config(), "has_shortcut": self.has_shortcut}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """As ``Sequential`` reads it."""
        made = super().from_config(config, custom_objects)
        made.has_shortcut = config["has_shortcut"]
        return made


def _weight_and_bias(layer: Any, axes: tuple[int, ...]) -> dict[str, Weight]:
    found = {"weight": Weight(layer.kernel, axes)}
    if layer.bias is not None:
        found["bias"] = Weight(layer.bias)
    return found
