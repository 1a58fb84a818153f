"""Keras's layers and models on JAX: in place, their optimizers and checkpoints; differentiated."""

from __future__ import annotations

from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.contract import LayerModels, ModelVariable, check_state, kind_of
from unidev.errors import NotAModelError, UnsupportedOperation
from unidev_jax.arrays import host_copy
from unidev_jax.framework import jax
from unidev_jax.variables import (
    assign,
    in_stateless_scope,
    is_keras_variable,
    keras_optimizers,
    plain,
    raw,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from unidev.contract import Array, Device

keras: Any = import_module("keras")


class KerasModels(LayerModels):
    """A part is a variable of Keras's, which is assigned another array and stays the same object.

    What Keras compiles is compiled again after a move: JAX sees that the arrays are elsewhere.
    Names are those of unidev on TensorFlow, so that a checkpoint from there loads here.
    """

    internal = ("_functional", "_tracker", "_pytree__")
    statistics_names = LayerModels.statistics_names | {"moving_mean", "moving_variance"}

    def is_layer(self, x: Any) -> bool:
        """Whether ``x`` is one of Keras's layers or models."""
        return isinstance(x, keras.Layer)

    def has_variables(self, x: Any) -> bool:
        """Layers and variables of Keras's."""
        return isinstance(x, keras.Layer) or is_keras_variable(x)

    def own(self, part: Any, path: str) -> Iterator[ModelVariable]:
        """Without those of metrics and optimizers."""
        if is_keras_variable(part):
            yield ModelVariable("", part, bool(part.trainable))
            return
        _check_built(part, path)
        # Not `part.variables`, in which those of the layers within are, and nothing at two places.
        for variable in part._trainable_variables:
            yield ModelVariable(variable.name, variable, True)
        for variable in part._non_trainable_variables:
            yield ModelVariable(variable.name, variable, False)
        for generator in part._seed_generators:
            yield ModelVariable("seed", generator.state, False, is_saved=False)

    def within(self, part: Any) -> Sequence[Any]:
        """Keras's own list."""
        layers: Sequence[Any] = part._layers
        return layers

    def sequence(self, layer: Any) -> Sequence[Any]:
        """The layers of a functional model, too."""
        is_chain = hasattr(layer, "operations") or isinstance(layer, keras.Sequential)
        return layer.layers if is_chain else ()

    def parts(self, model: Any, optimizer: Any) -> Sequence[Any]:
        """Includes the metrics and the optimizers that ``compile`` has put into the model."""
        variables = [found.variable for found in self.walk(model)]
        for layer in self.all_layers(model):
            variables += layer.metrics_variables
            variables += _variables_of(getattr(layer, "optimizer", None))
        kinds = keras_optimizers()  # once: many objects are asked about
        own = self.kept(model, lambda x: isinstance(x, kinds))
        for each in (*own, optimizer):
            variables += _variables_of(each)
        unique = {id(variable): variable for variable in variables}
        for variable in unique.values():
            _check_movable(variable)
        return list(unique.values())

    def is_on(self, part: Any, device: Device) -> bool:
        """Whether its array is."""
        return self.backend.is_bound(raw(part), device)

    def is_placed(self, model: Any, device: Device) -> bool:
        """Ignores metrics, which Keras creates late."""
        kept = [x for layer in self._derived(model) for x in _constants(layer).values()]
        return all(self.backend.is_bound(x, device) for x in kept) and all(
            self.is_on(found.variable, device) for found in self.walk(model)
        )

    def twin(self, part: Any, device: Device) -> Any:
        """The variable's value in new memory, in a list."""
        return [self.backend.copy_to(raw(part), device, False)]

    def swap(self, part: Any, twin: Any) -> None:
        """Exchange the values; Keras keeps an array of the variable's dtype as it is."""
        before = raw(part)
        part.assign(twin[0])
        twin[0] = before

    def finish(self, model: Any, optimizer: Any, device: Device) -> Any:
        """The constants of layers move as well."""
        self.adapt(model, device)
        return optimizer

    def namespaces(self, model: Any) -> Sequence[dict[str, Any]]:
        """The attributes that ``adapt`` changes."""
        return [vars(layer) for layer in self._derived(model)]

    def adapt(self, model: Any, device: Device) -> None:
        """Makes the constants of layers anew, of their variables."""
        layers = self._derived(model)
        before = [(layer, _constants(layer)) for layer in layers]
        try:
            for layer in layers:
                layer.finalize_state()
                for name, x in _constants(layer).items():
                    if not self.backend.is_bound(x, device):
                        setattr(layer, name, self.backend.copy_to(x, device, False))
        except BaseException:
            for layer, held in before:
                vars(layer).update(held)
            raise

    @contextmanager
    def allocated(self, model: Any, device: Device) -> Iterator[None]:  # noqa: ARG002
        """In the end, makes constants of what was loaded; Keras has compiled the old ones in."""
        yield
        layers = self._derived(model)
        for layer in layers:
            layer.finalize_state()
        for each in self.all_layers(model) if layers else ():
            for name in ("train_function", "test_function", "predict_function"):
                if getattr(each, name, None) is not None:
                    setattr(each, name, None)

    def _derived(self, model: Any) -> list[Any]:
        """Layers that compute with constants, as ``Normalization`` once it is adapted."""
        return [x for x in self.all_layers(model) if hasattr(x, "finalize_state") and _constants(x)]

    def write(self, x: Any, values: Array) -> None:
        """A new array on the variable's device."""
        old = raw(x)
        if old.dtype.name == "bfloat16":
            values = values.view(old.dtype)
        x.assign(self.backend.from_numpy(values, old.dtype, self.backend.device_of(old)))

    def optimizer_state(self, optimizer: Any) -> Mapping[str, Array]:
        """Its variables by ``CLASS.POSITION``: steps, learning rate and moments."""
        return {name: host_copy(raw(variable)) for name, variable in _named(optimizer).items()}

    def load_optimizer_state(self, model: Any, optimizer: Any, state: Mapping[str, Array]) -> None:
        """New arrays; what no device was asked for is put beside the model, as moments are.

        An optimizer that has none yet is built.

        Raises:
            CheckpointError: it is of another optimizer, or of another model.
        """
        named, is_new = _named(optimizer), not optimizer.built
        if is_new and len(state) > len(named):
            optimizer.build(model.trainable_variables)
            named = _named(optimizer)
        shapes = {name: tuple(x.shape) for name, x in named.items()}
        check_state(type(optimizer).__name__, shapes, state)
        beside = raw(next(iter(self.parameters(model).values())))
        for name, variable in named.items():
            old = raw(variable)
            device = self.backend.device_of(old if old.committed and not is_new else beside)
            values = np.asarray(state[name])
            variable.assign(self.backend.from_numpy(values, old.dtype, device))


_GIVEN = {"input_mean", "input_variance"}
"""Of ``Normalization``: what the program has passed, of which its constants are made."""


def _constants(layer: Any) -> dict[str, Any]:
    """Arrays that Keras makes in ``finalize_state`` of a layer's variables, by attribute.

    https://github.com/keras-team/keras/issues/20163
    """
    held = vars(layer).items()
    return {name: x for name, x in held if isinstance(x, jax.Array) and name not in _GIVEN}


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


def _variables_of(optimizer: Any) -> list[Any]:
    """All that the optimizer keeps, and one that it wraps; none if it is None.

    Raises:
        NotAModelError: it is not one of Keras's.
    """
    if optimizer is None:
        return []
    if not isinstance(optimizer, keras_optimizers()):
        raise NotAModelError(
            "the optimizer of a Keras model must be one of keras.optimizers, and this is of type "
            f"{kind_of(optimizer)}."
        )
    own: list[Any] = optimizer.variables
    inner = getattr(optimizer, "inner_optimizer", None)  # LossScaleOptimizer has one
    return [*own, *_variables_of(inner)]


def _named(optimizer: Any) -> dict[str, Any]:
    kind = type(optimizer).__name__
    # Not by Keras's names, which count all that was ever made in the process.
    return {f"{kind}.{number}": x for number, x in enumerate(_variables_of(optimizer))}


def _check_movable(variable: Any) -> None:
    """Refuse a variable that would not keep the array that it is assigned.

    Raises:
        UnsupportedOperation: says why.
    """
    if in_stateless_scope():
        raise UnsupportedOperation(
            "placing a Keras model in a keras.StatelessScope",
            "its variables keep nothing that they are assigned there: place it outside",
        )
    if getattr(variable, "_layout", None) is not None:
        raise UnsupportedOperation(
            f"placing {variable.path}, a {kind_of(variable)}",
            "keras.distribution has given it a layout, which places whatever it is assigned: make "
            "the model outside of the distribution",
            "https://keras.io/guides/distribution/",
        )


class _Scope(keras.StatelessScope):  # type: ignore[misc]  # Keras's types are partial
    """Within another, it begins with the other's values; knows the variables that changed."""

    def __init__(self, values: Iterable[tuple[Any, Any]]) -> None:
        super().__init__(values, collect_losses=True)
        self.changed: dict[int, Any] = {}

    def __enter__(self) -> _Scope:
        super().__enter__()
        if self.original_scope is not None:
            for key, value in self.original_scope.state_mapping.items():
                self.state_mapping.setdefault(key, value)
        return self

    def add_update(self, update: tuple[Any, Any]) -> None:
        """Called for each assignment to a variable."""
        self.changed[id(update[0])] = update[0]
        super().add_update(update)


class Stateless:
    """A model while JAX differentiates it: itself, in a scope with traced values.

    Calls a loss with ``model``, in which ``leaves`` have the values that are given.
    """

    def __init__(self, model: Any, leaves: Iterable[Any]) -> None:
        self._model = model
        self._leaves = list(leaves)
        self._changed: list[Any] = []

    def evaluated(
        self, loss_of: Callable[[Any], Any], arrays: Sequence[Any]
    ) -> tuple[Any, Sequence[Any]]:
        """The loss, and the new values of all variables that it has assigned, but for the leaves.

        Also those of other models and of metrics, since Keras keeps nothing of them.
        """
        with _Scope(zip(self._leaves, arrays, strict=True)) as scope:
            loss = plain(loss_of(self._model))
        leaves = set(map(id, self._leaves))
        self._changed = [x for key, x in scope.changed.items() if key not in leaves]
        return loss, [scope.get_current_value(x) for x in self._changed]

    def apply(self, values: Sequence[Any]) -> None:
        """Set them in the variables themselves."""
        for variable, value in zip(self._changed, values, strict=True):
            assign(variable, value)
