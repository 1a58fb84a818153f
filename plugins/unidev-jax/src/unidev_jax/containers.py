"""JAX's containers: whatever is registered as a pytree, by JAX, its libraries or a program."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from unidev_jax.framework import jax

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from unidev.contract import Children


def opened(x: object) -> Children | None:
    """As ``Backend.opened``: one level of ``x``, if its class is registered."""
    children, structure, steps = _apart(x)
    if len(children) == 1 and children[0] is x:  # a leaf
        return None
    return dict(zip(steps, children, strict=True)), structure.unflatten


def _apart(x: Any) -> tuple[list[Any], Any, list[str]]:
    found, structure = jax.tree_util.tree_flatten_with_path(x, is_leaf=lambda each: each is not x)
    return [child for _, child in found], structure, [jax.tree_util.keystr(at) for at, _ in found]


def _together(structure: Any, children: Sequence[Any]) -> Any:
    return structure.unflatten(children)


def _state_apart(state: Any) -> tuple[list[Any], Any, list[str]]:
    """Down to the arrays: variables are tensors, of which copies are arrays, and here they stay."""
    found, structure = jax.tree_util.tree_flatten_with_path(state)
    key = jax.tree_util.GetAttrKey("value")
    paths = [at[:-1] if at[-1] == key else at for at, _ in found]
    return [x for _, x in found], structure, [jax.tree_util.keystr(path) for path in paths]


CONTAINERS: Mapping[type | str, tuple[Callable[..., Any], Callable[..., Any]] | None]
CONTAINERS = MappingProxyType(
    {
        "flax.core.frozen_dict.FrozenDict": (_apart, _together),
        "flax.nnx.statelib.State": (_state_apart, _together),
    }
)
"""Flax's mappings (0.12), whose keys are the steps to what they hold, and not their attributes."""
