"""Keras's optimizers, and what ``compile`` and ``fit`` add to a model: variables, traces, state."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.contract import check_state, kind_of
from unidev.errors import UnsupportedOperation
from unidev_tensorflow.models.swap import native_variable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unidev.contract import Array

_FUNCTIONS = ("train_function", "test_function", "predict_function")


def variables_beside(layers: Sequence[Any], optimizer: Any) -> list[Any]:
    """Variables of the metrics and the optimizers of ``layers``, and of ``optimizer``."""
    found = []
    for layer in layers:
        found += layer.metrics_variables
        found += variables_of(getattr(layer, "optimizer", None))
    return found + variables_of(optimizer)


def forget_traces(layers: Sequence[Any]) -> None:
    """Make Keras retrace what it runs in ``fit``, ``evaluate`` and ``predict``.

    The traced functions hold the old handles, and would train memory that the model no longer uses.
    """
    for layer in layers:
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


def state_of(optimizer: Any) -> dict[str, Array]:
    """Its variables by ``CLASS.POSITION``: steps, learning rate and moments."""
    return {name: _array(variable) for name, variable in _named(optimizer).items()}


def load_state(model: Any, optimizer: Any, given: Mapping[str, Array]) -> None:
    """By ``assign``; an optimizer that has no moments yet is built for the model.

    Raises:
        CheckpointError: it is of another optimizer, or of another model.
    """
    if not optimizer.built and len(given) > len(_named(optimizer)):
        optimizer.build(model.trainable_variables)
    named, kind = _named(optimizer), type(optimizer).__name__
    check_state(kind, {name: tuple(x.shape) for name, x in named.items()}, given)
    for name, variable in named.items():
        variable.assign(given[name])


def _named(optimizer: Any) -> dict[str, Any]:
    kind = type(optimizer).__name__
    found = variables_of(optimizer)
    # Not by Keras's names, which count all that was ever made in the process.
    return {f"{kind}.{number}": variable for number, variable in enumerate(found)}


def _array(variable: Any) -> Array:
    """New memory; bfloat16 as float32, which holds the same numbers."""
    values = np.array(native_variable(variable).numpy())
    return values.astype(np.float32) if values.dtype.kind == "V" else values
