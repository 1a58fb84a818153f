"""JAX's containers: whatever is registered as a pytree, by JAX, its libraries or a program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unidev_jax.framework import jax

if TYPE_CHECKING:
    from unidev.contract import Children


def opened(x: object) -> Children | None:
    """As ``Backend.opened``: one level of ``x``, if its class is registered."""
    found, structure = jax.tree_util.tree_flatten_with_path(x, is_leaf=lambda each: each is not x)
    if len(found) == 1 and found[0][1] is x:  # a leaf
        return None
    children: dict[str, Any] = {jax.tree_util.keystr(path): child for path, child in found}
    return children, structure.unflatten
