"""A Keras optimizer's state, as named arrays: read, and loaded again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.contract import check_state
from unidev_tensorflow.models.optimizers import variables_of
from unidev_tensorflow.models.swap import native_variable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unidev.contract import Array


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
