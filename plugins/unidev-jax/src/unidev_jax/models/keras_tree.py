"""The variables of a Keras model, each by its path.

The names are those that unidev gives a Keras model on TensorFlow, so that a checkpoint from there
loads here. Keras's own names are numbered across models.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from unidev.contract import found_in, kind_of
from unidev.errors import UnsupportedOperation
from unidev_jax.variables import is_keras_variable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    T = TypeVar("T")

keras: Any = import_module("keras")

_INTERNAL = ("_functional", "_tracker", "_pytree__")
"""Prefixes of attributes that only repeat what another attribute holds."""


class Found(NamedTuple):
    """A variable at one of its places in the model."""

    name: str
    variable: Any
    is_parameter: bool
    """Whether training changes it, or would change it if it were not frozen."""
    is_saved: bool = True
    """False for the state of random generators, which Keras's own files omit as well."""


def walk(model: Any) -> Iterator[Found]:
    """Every variable of ``model``, at every place; without those of metrics and optimizers.

    Raises:
        UnsupportedOperation: a layer is not built and has no variables yet; says how to build it.
    """
    return _layer(model, "", ())


def layers_in(model: Any) -> list[Any]:
    """Every layer that ``model`` contains, itself included."""
    found: dict[int, Any] = {}
    pending = [model]
    while pending:
        layer = pending.pop()
        if id(layer) not in found:
            found[id(layer)] = layer
            pending.extend(layer._layers)
    return list(found.values())


def _layer(layer: Any, path: str, above: tuple[int, ...]) -> Iterator[Found]:
    if id(layer) in above:
        return
    _check_built(layer, path)
    # Not `layer.variables`, in which those of the layers within are, and nothing at two places.
    own = [(v.name, Found("", v, True)) for v in layer._trainable_variables]
    own += [(v.name, Found("", v, False)) for v in layer._non_trainable_variables]
    own_ids = {id(found.variable) for _, found in own}
    for name, found in _numbered(own):
        yield found._replace(name=_joined(path, name))
    for name, generator in _numbered(("seed", each) for each in layer._seed_generators):
        yield Found(_joined(path, name), generator.state, False, is_saved=False)
    for name, child in _children(layer, own_ids):
        if is_keras_variable(child):
            yield Found(_joined(path, name), child, bool(child.trainable))
        else:
            yield from _layer(child, _joined(path, name), (*above, id(layer)))


def _children(layer: Any, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """By position for layers in a sequence, else by attribute; by both if it has both."""
    if hasattr(layer, "operations") or isinstance(layer, keras.Sequential):
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
    return isinstance(value, keras.Layer) or is_keras_variable(value)


def _check_built(layer: Any, path: str) -> None:
    build = type(layer).build
    # The implementation that all models and layers share builds nothing; its children do.
    if layer.built or getattr(build, "_is_default", False) or build is keras.Model.build:
        return
    where = f" at {path!r}" if path else ""
    raise UnsupportedOperation(
        f"looking into a {kind_of(layer)}{where} that is not built",
        "its variables are created when it is built: call it once with a batch, or its "
        "build(input_shape)",
        "https://keras.io/guides/making_new_layers_and_models_via_subclassing/",
    )


def _numbered(items: Iterable[tuple[str, T]]) -> Iterator[tuple[str, T]]:
    """Numbers repeated names."""
    counts: dict[str, int] = {}
    for name, item in items:
        count = counts[name] = counts.get(name, -1) + 1
        yield f"{name}_{count}" if count else name, item


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
