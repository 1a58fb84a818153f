"""Batch normalisation by the statistics of all workers."""

from __future__ import annotations

import math
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import keras  # type: ignore[import-untyped]
import tensorflow as tf  # type: ignore[import-untyped]

from unidev.errors import UnsupportedOperation
from unidev_tensorflow.nn import keras_layers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unidev.contract import CombineMoments, Model, Tensor

_Keras = keras.layers.BatchNormalization
_KNOWN = (_Keras, keras_layers.BatchNormalization)


@contextmanager
def synchronized(model: Model, combine: CombineMoments) -> Iterator[None]:
    """A block in which the ``_moments`` of these layers of ``model`` are those of all workers."""
    layers = _layers_of(model)
    with ExitStack() as block:
        for layer in layers:
            layer._moments = partial(_moments, layer, combine)
            block.callback(vars(layer).pop, "_moments")
        yield


def _layers_of(model: Model) -> list[Any]:
    doing = f"synchronizing the batch normalisation of a {type(model).__name__}"
    inside = model._flatten_layers() if isinstance(model, keras.Layer) else ()
    found = [each for each in inside if isinstance(each, _Keras)]
    if not found:
        raise UnsupportedOperation(doing, "it has no keras.layers.BatchNormalization")
    for layer in found:
        kind = type(layer)
        if not any(kind.call is each.call and kind._moments is each._moments for each in _KNOWN):
            raise UnsupportedOperation(
                doing, f"its {kind.__name__} has a call of its own: use Keras's layer"
            )
    return found


def _moments(
    layer: Any, combine: CombineMoments, inputs: Tensor, mask: Tensor | None
) -> tuple[Any, Any]:
    """The mean and the variance of each channel of all workers' inputs."""
    doing = f"synchronizing the batch normalisation of {layer.name}"
    if mask is not None:
        raise UnsupportedOperation(doing, "its input has a mask")
    if not tf.executing_eagerly():
        raise UnsupportedOperation(
            doing, "it runs in a tf.function, inside which nothing can wait for other workers"
        )
    sizes = inputs.shape.as_list()
    is_last = isinstance(layer, keras_layers.BatchNormalization)
    axes = list(range(len(sizes) - 1)) if is_last else list(layer._reduction_axes)
    count = math.prod(sizes[axis] for axis in axes)
    mean = tf.reduce_sum(inputs, axes, keepdims=True) / max(count, 1)
    deviations = tf.reduce_sum(tf.square(inputs - mean), axes)

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def combined(mean: Tensor, deviations: Tensor) -> tuple[Any, Any]:
        found = combine(mean, deviations, count)
        return (found.mean, found.variance), found.gradients

    found: tuple[Any, Any] = combined(tf.reshape(mean, [-1]), deviations)
    return found
