"""The variables of a Keras model or a ``tf.Module``, each by its path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import tensorflow as tf  # type: ignore[import-untyped]

from unidev.contract import found_in, kind_of
from unidev.errors import UnsupportedOperation
from unidev_tensorflow.tensors import (
    common_build,
    is_chain,
    is_keras_layer,
    is_keras_variable,
    portable_layers,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    T = TypeVar("T")

_INTERNAL = ("_self_", "_obj_reference", "_functional", "_tracker")
"""Prefixes of attributes that only repeat what another attribute holds."""


class Found(NamedTuple):
    """A variable at one of its places in the model."""

    name: str
    variable: Any
    """Keras's own variable, if there is one."""
    is_parameter: bool
    """Whether training changes it, or would change it if it were not frozen."""
    is_saved: bool = True
    """False for the state of random generators, which Keras's own files omit as well."""
    axes: tuple[int, ...] | None = None
    """See ``Stored``."""


def walk(model: Any) -> Iterator[Found]:
    """Every variable of ``model``, at every place, in the framework's order.

    Names are paths, as in Keras's own files: Keras's names of variables are numbered across models.
    Leaves out what ``compile`` adds: optimizers and metrics.

    Raises:
        UnsupportedOperation: a layer is not built and has no variables yet; says how to build it.
    """
    return _visit(model, "", ())


def keras_layers(model: Any) -> list[Any]:
    """Every Keras layer and model that ``model`` contains, itself included."""
    found: dict[int, Any] = {}
    pending, seen = [model], set()
    while pending:
        node = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if is_keras_layer(node):
            found[id(node)] = node
            pending.extend(node._layers)
        elif isinstance(node, tf.Module):
            pending.extend(
                child for _, child in found_in(list(vars(node).values()), _holds_variables)
            )
    return list(found.values())


def _visit(node: Any, path: str, above: tuple[int, ...]) -> Iterator[Found]:
    """The variables of ``node``, which has variables or is one."""
    if id(node) in above:
        return
    if isinstance(node, portable_layers()):
        yield from _portable(node, path, (*above, id(node)))
    elif is_keras_layer(node):
        yield from _layer(node, path, (*above, id(node)))
    elif isinstance(node, tf.Variable) or is_keras_variable(node):
        yield Found(path, node, bool(node.trainable))
    elif isinstance(node, tf.random.Generator):
        yield Found(path, node.state, False, is_saved=False)
    elif isinstance(node, tf.Module):
        for name, value in sorted(vars(node).items()):  # the order of tf.Module itself
            if not name.startswith(_INTERNAL):
                for child_name, child in found_in(value, _holds_variables, _join(path, name)):
                    yield from _visit(child, child_name, (*above, id(node)))


def _layer(layer: Any, path: str, above: tuple[int, ...]) -> Iterator[Found]:
    _check_built(layer, path)
    own = [(v.name, Found("", v, True)) for v in layer._trainable_variables]
    own += [(v.name, Found("", v, False)) for v in layer._non_trainable_variables]
    for name, found in _numbered(own):
        yield found._replace(name=_join(path, name))
    yield from _random(layer, path)
    for name, child in _children(layer, {id(found.variable) for _, found in own}):
        yield from _visit(child, _join(path, name), above)


def _portable(layer: Any, path: str, above: tuple[int, ...]) -> Iterator[Found]:
    for name, weight in layer.portable_weights().items():
        yield Found(_join(path, name), weight.variable, weight.is_parameter, True, weight.axes)
    if layer._seed_generators:
        yield from _random(layer, path)
    for index, child in enumerate(getattr(layer, "stack", ())):
        yield from _visit(child, _join(path, index), above)


def _random(layer: Any, path: str) -> Iterator[Found]:
    for name, generator in _numbered(("seed", generator) for generator in layer._seed_generators):
        yield Found(_join(path, name), generator.state, False, is_saved=False)


def _children(layer: Any, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """By position for layers in a sequence, else by attribute; by both if it has both."""
    if is_chain(layer):
        for index, child in enumerate(layer.layers):
            yield str(index), child
        seen = seen | set(map(id, layer.layers))
    reached = set(seen)
    for name, value in vars(layer).items():
        # Keras keeps lists in private containers of its own.
        is_list = name.startswith("_") and isinstance(value, (list, tuple, dict))
        if is_list or name.startswith(_INTERNAL):
            continue
        for child_name, child in found_in(value, _holds_variables, name):
            if id(child) not in seen:
                yield child_name, child
                reached.add(id(child))
    for index, child in enumerate(layer._layers):
        if id(child) not in reached:
            yield f"layers.{index}", child


def _holds_variables(value: Any) -> bool:
    return isinstance(value, _HOLDERS) or is_keras_layer(value) or is_keras_variable(value)


def _check_built(layer: Any, path: str) -> None:
    build = type(layer).build
    # The implementation that all models and layers share builds nothing; its children do.
    if layer.built or getattr(build, "_is_default", False) or build is common_build():
        return
    where = f" at {path!r}" if path else ""
    raise UnsupportedOperation(
        f"looking into a {kind_of(layer)}{where} that is not built",
        "its variables are created when it is built: call it once with a batch, or its "
        "build(input_shape). Built inside `with device:`, they are on that device from the "
        "beginning",
        "https://keras.io/guides/making_new_layers_and_models_via_subclassing/",
    )


def _numbered(items: Iterable[tuple[str, T]]) -> Iterator[tuple[str, T]]:
    """Numbers repeated names."""
    counts: dict[str, int] = {}
    for name, item in items:
        count = counts[name] = counts.get(name, -1) + 1
        yield f"{name}_{count}" if count else name, item


def _join(path: str, name: object) -> str:
    return f"{path}.{name}" if path else str(name)


_HOLDERS = (tf.Variable, tf.Module, tf.random.Generator)
