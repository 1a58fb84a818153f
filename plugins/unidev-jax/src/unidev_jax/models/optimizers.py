"""Flax's optimizers: their state as named arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.contract import check_state, kind_of
from unidev.errors import NotAModelError, UnsupportedOperation
from unidev_jax.arrays import host_copy
from unidev_jax.models.flax import nnx
from unidev_jax.models.tree import Attribute, is_array, once, value_of, walk
from unidev_jax.variables import assigning

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unidev.contract import Array, Backend


def check_optimizer(optimizer: Any) -> None:
    """Raise ``NotAModelError`` unless it is an ``nnx.Optimizer``."""
    if not isinstance(optimizer, nnx.Optimizer):
        raise NotAModelError(
            "the optimizer of a Flax module must be an nnx.Optimizer, and this is of type "
            f"{kind_of(optimizer)}."
        )


def state_of(optimizer: Any) -> dict[str, Array]:
    """Its variables by ``CLASS.PATH``: the step, and what Optax keeps for each parameter.

    Raises:
        UnsupportedOperation: it keeps something else than single arrays.
    """
    return {name: host_copy(x.get_raw_value()) for name, x in _named(optimizer).items()}


def load_state(backend: Backend, optimizer: Any, given: Mapping[str, Array]) -> None:
    """Set its variables to new arrays, on the devices of the old ones.

    Raises:
        CheckpointError: it is of another optimizer, or of another model.
    """
    named = _named(optimizer)
    shapes = {name: tuple(x.get_raw_value().shape) for name, x in named.items()}
    check_state(type(optimizer).__name__, shapes, given)
    for name, variable in named.items():
        old = variable.get_raw_value()
        device = backend.device_of(old)
        made = backend.from_numpy(np.asarray(given[name]), old.dtype, device)
        with assigning():
            variable.set_raw_value(made)


def _named(optimizer: Any) -> dict[str, Any]:
    check_optimizer(optimizer)
    kind, found = type(optimizer).__name__, {}
    model = getattr(optimizer, "model", None) if "model" in vars(optimizer) else None
    own = set() if model is None else {one.key for one in walk(model)}
    for one in once(walk(optimizer)):
        if one.key in own:
            continue
        if isinstance(one.part, Attribute) or not is_array(value_of(one.part)):
            raise UnsupportedOperation(
                f"saving an nnx.{kind}", f"it keeps {one.path} outside of Flax's variables"
            )
        found[f"{kind}.{one.path}"] = one.part
    return found
