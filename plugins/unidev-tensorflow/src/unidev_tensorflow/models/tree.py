"""The variables of a Keras model or a ``tf.Module``, each by its path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf  # type: ignore[import-untyped]

from unidev.contract import LayerModels, ModelVariable, found_in, kind_of
from unidev.errors import UnsupportedOperation
from unidev_tensorflow.models.swap import native_variable
from unidev_tensorflow.tensors import (
    EAGER,
    common_build,
    is_chain,
    is_keras_layer,
    is_keras_variable,
    portable_layers,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_GIVEN = {"input_mean", "input_variance"}
"""Of ``Normalization``: what the program has passed, of which its constants are made."""
_PARTS = (tf.Variable, tf.Module, tf.random.Generator)


class Tree(LayerModels):
    """Variables in the framework's order, without what ``compile`` adds: optimizers and metrics."""

    internal = ("_self_", "_obj_reference", "_functional", "_tracker")
    is_layer = staticmethod(is_keras_layer)
    native = staticmethod(native_variable)

    def has_variables(self, x: Any) -> bool:
        """Also ``tf.Module``s, and TensorFlow's own random generators."""
        return isinstance(x, _PARTS) or is_keras_layer(x) or is_keras_variable(x)

    def own(self, part: Any, path: str) -> Iterator[ModelVariable]:
        """Keras's variables, if there are any, by their names; those of ``unidev.nn`` by ours."""
        if isinstance(part, portable_layers()):
            for name, weight in part.portable_weights().items():
                yield ModelVariable(name, weight.variable, weight.is_parameter, True, weight.axes)
        elif is_keras_layer(part):
            _check_built(part, path)
            for variable in part._trainable_variables:
                yield ModelVariable(variable.name, variable, True)
            for variable in part._non_trainable_variables:
                yield ModelVariable(variable.name, variable, False)
        elif isinstance(part, tf.Variable) or is_keras_variable(part):
            yield ModelVariable("", part, bool(part.trainable))
        elif isinstance(part, tf.random.Generator):
            yield ModelVariable("", part.state, False, is_saved=False)
        if is_keras_layer(part):
            for generator in part._seed_generators:
                yield ModelVariable("seed", generator.state, False, is_saved=False)

    def within(self, part: Any) -> Iterable[Any]:
        """Keras's list of a layer's layers, and what a ``tf.Module`` refers to."""
        if is_keras_layer(part):
            return part._layers  # type: ignore[no-any-return]
        return [child for _, child in self.children(part, set())]

    def copy(self, model: Any) -> Any:
        """Keras makes layers anew of their configuration, which lacks the mode of ``unidev.nn``."""
        made = super().copy(model)
        pairs, seen = [(model, made)], set()
        while pairs:
            old, new = pairs.pop()
            if id(new) not in seen:
                seen.add(id(new))
                if isinstance(old, portable_layers()):
                    new.is_training_mode = old.is_training_mode
                pairs += zip(self.within(old), self.within(new), strict=False)
        return made

    def derived(self, model: Any) -> list[Any]:
        """Layers that compute with ``constants``, as Keras's ``Normalization`` once adapted."""
        return [x for x in self.all_layers(model) if hasattr(x, "finalize_state") and constants(x)]

    def sequence(self, layer: Any) -> Iterable[Any]:
        """The layers of a functional model, too."""
        return layer.layers if is_chain(layer) else ()

    def children(self, part: Any, seen: set[int]) -> Iterator[tuple[str, Any]]:
        """Those of ``unidev.nn`` have layers in a ``stack`` alone."""
        if isinstance(part, portable_layers()):
            for index, child in enumerate(getattr(part, "stack", ())):
                yield str(index), child
        elif is_keras_layer(part) or not isinstance(part, tf.Module):
            yield from super().children(part, seen)
        else:
            for name, value in sorted(vars(part).items()):  # the order of tf.Module itself
                if not name.startswith(self.internal):
                    yield from found_in(value, self.has_variables, name)


def constants(layer: Any) -> dict[str, Any]:
    """Tensors that Keras makes in ``finalize_state`` of a layer's variables, by attribute.

    Those of lookup layers, which have no variables, are for the host.
    https://github.com/keras-team/keras/issues/20163
    """
    if not (layer._non_trainable_variables or getattr(layer, "input_mean", None) is not None):
        return {}
    return {
        name: x
        for name, x in vars(layer).items()
        if isinstance(x, EAGER) and x.dtype.is_floating and name not in _GIVEN
    }


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
