"""Variables and traces that Keras's ``compile`` and ``fit`` add to a model; optimizers."""

from __future__ import annotations

import sys
from typing import Any

from unidev.contract import kind_of
from unidev.errors import UnsupportedOperation
from unidev_tensorflow.models.tree import keras_layers

_FUNCTIONS = ("train_function", "test_function", "predict_function")


def variables_beside(model: Any, optimizer: Any) -> list[Any]:
    """Variables of the metrics and the optimizers of ``model``, and of ``optimizer``."""
    found = []
    for layer in keras_layers(model):
        found += layer.metrics_variables
        found += variables_of(getattr(layer, "optimizer", None))
    return found + variables_of(optimizer)


def forget_traces(model: Any) -> None:
    """Make Keras retrace what it runs in ``fit``, ``evaluate`` and ``predict``.

    The traced functions hold the old handles, and would train memory that the model no longer uses.
    """
    for layer in keras_layers(model):
        for name in _FUNCTIONS:
            if getattr(layer, name, None) is not None:
                setattr(layer, name, None)


def variables_of(optimizer: Any) -> list[Any]:
    """All that the optimizer keeps, and one that it wraps; none if it is None.

    Raises:
        UnsupportedOperation: it is not one of Keras's.
    """
    if optimizer is None:
        return []
    keras = sys.modules.get("keras")
    if keras is None or not isinstance(optimizer, keras.optimizers.Optimizer):
        raise UnsupportedOperation(
            f"placing a {kind_of(optimizer)} with a model",
            "on TensorFlow an optimizer must be one of keras.optimizers",
        )
    inner = getattr(optimizer, "inner_optimizer", None)  # LossScaleOptimizer has one
    return [*optimizer.variables, *variables_of(inner)]
