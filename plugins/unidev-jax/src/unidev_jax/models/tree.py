"""The variables and arrays of a Flax module or optimizer, each by its path."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

from unidev.contract import kind_of
from unidev.errors import UnsupportedOperation
from unidev_jax.framework import jax
from unidev_jax.models.flax import nnx

if TYPE_CHECKING:
    from collections.abc import Iterator

_INTERNAL = "_pytree__"
"""The beginning of the names of Flax's own attributes, which hold no arrays."""


_PLAIN = {int, float, bool, str, bytes, type(None), FunctionType}
"""Exact types of attributes that hold no arrays; most attributes are of these."""


class Attribute(NamedTuple):
    """An attribute that holds arrays outside of any variable: itself, or in a container."""

    owner: Any
    name: str

    @property
    def value(self) -> Any:
        """What the attribute refers to now."""
        return vars(self.owner)[self.name]

    @value.setter
    def value(self, value: Any) -> None:
        vars(self.owner)[self.name] = value


class Found(NamedTuple):
    """A variable, or an attribute with arrays, at one of its places."""

    path: str
    part: Any

    @property
    def key(self) -> Any:
        """The same for the same part at all its places."""
        if isinstance(self.part, Attribute):
            return id(self.part.owner), self.part.name
        return id(self.part)


def walk(model: Any) -> Iterator[Found]:
    """Every variable and every attribute with arrays, at every place, in Flax's order."""
    return _module(model, "", ())


def modules_in(model: Any) -> Iterator[Any]:
    """``model`` and every module in it, each once, outer ones first."""
    pending, seen = [model], set()
    while pending:
        node = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        inside = [child for _, value in _attributes(node) for child in _nodes_in(value)]
        pending.extend(reversed(inside))


def once(found: Iterator[Found]) -> Iterator[Found]:
    """Each part at its first place."""
    seen = set()
    for one in found:
        if one.key not in seen:
            seen.add(one.key)
            yield one


def arrays_of(part: Any) -> list[Any]:
    """The arrays of a part: mostly one, but a variable may hold a container of them."""
    value = value_of(part)
    if is_array(value):
        return [value]
    return [x for x in jax.tree.leaves(value, is_leaf=_is_opaque) if is_array(x)]


def value_of(part: Any) -> Any:
    """What a part refers to: an array, or a container with arrays."""
    return part.value if isinstance(part, Attribute) else part.get_raw_value()


def replaced(part: Any, replace: Any) -> Any:
    """The value of a part with other arrays; what else a container holds stays the same object."""
    value = value_of(part)
    if is_array(value):
        return replace(value)
    return jax.tree.map(lambda x: replace(x) if is_array(x) else x, value, is_leaf=_is_opaque)


def named_arrays(one: Found) -> Iterator[tuple[str, Any]]:
    """The tensors of a part by path: the variable itself if it holds one array."""
    value = value_of(one.part)
    if is_array(value):
        yield one.path, value if isinstance(one.part, Attribute) else one.part
        return
    for keys, x in jax.tree.leaves_with_path(value, is_leaf=_is_opaque):
        if is_array(x):
            yield f"{one.path}.{jax.tree_util.keystr(keys, simple=True, separator='.')}", x


def is_array(x: Any) -> bool:
    """Whether ``x`` is one of JAX's arrays; NumPy's are on no device."""
    return isinstance(x, jax.Array)


def check_movable(one: Found) -> None:
    """Refuse a variable whose memory belongs to JAX's mutable arrays.

    Raises:
        UnsupportedOperation: says why.
    """
    if isinstance(one.part, Attribute):
        return
    if one.part.hijax or one.part.ref:
        raise UnsupportedOperation(
            f"placing {one.path}, a {kind_of(one.part)}",
            "it holds one of JAX's mutable arrays, whose device cannot change: make the variable "
            "with ref=False and hijax=False",
            "https://flax.readthedocs.io/en/stable/api_reference/flax.nnx/variables.html",
        )


def _module(node: Any, path: str, above: tuple[int, ...]) -> Iterator[Found]:
    if id(node) in above:
        return
    for name, value in _attributes(node):
        yield from _within(value, _joined(path, name), (*above, id(node)), Attribute(node, name))


def _within(value: Any, path: str, above: tuple[int, ...], attribute: Attribute) -> Iterator[Found]:
    if isinstance(value, nnx.Variable):
        yield Found(path, value)
    elif isinstance(value, nnx.Pytree):
        yield from _module(value, path, above)
    elif is_array(value):
        yield Found(path, attribute)
    else:
        leaves = _leaves(value)
        if any(is_array(x) for _, x in leaves):
            yield Found(path, attribute)
        for keys, x in leaves:
            if isinstance(x, (nnx.Variable, nnx.Pytree)):
                inner = jax.tree_util.keystr(keys, simple=True, separator=".")
                yield from _within(x, _joined(path, inner), above, attribute)


def _leaves(value: Any) -> list[tuple[Any, Any]]:
    """What a pytree holds, with its keys; nothing of what JAX cannot take apart."""
    try:
        found: list[tuple[Any, Any]] = jax.tree.leaves_with_path(value, is_leaf=_is_opaque)
    except ValueError:  # a dict whose keys have no order: Flax takes none for data
        return []
    return found


def _attributes(node: Any) -> list[tuple[str, Any]]:
    """In Flax's order: sorted, the elements of a list by number."""
    own = [
        (name, x)
        for name, x in vars(node).items()
        if type(x) not in _PLAIN and not name.startswith(_INTERNAL)
    ]
    if isinstance(node, nnx.List):
        return sorted(own, key=lambda item: (not item[0].isdecimal(), len(item[0]), item[0]))
    return sorted(own, key=lambda item: item[0])


def _nodes_in(value: Any) -> list[Any]:
    if isinstance(value, nnx.Pytree):
        return [value]
    if isinstance(value, nnx.Variable) or is_array(value):
        return []
    return [x for _, x in _leaves(value) if isinstance(x, nnx.Pytree)]


def _is_opaque(x: Any) -> bool:
    return isinstance(x, (nnx.Variable, nnx.Pytree))


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
