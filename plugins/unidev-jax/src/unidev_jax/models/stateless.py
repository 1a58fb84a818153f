"""A Keras model while JAX differentiates it: itself, in a scope with traced values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unidev_jax.models.keras_tree import keras
from unidev_jax.variables import assign, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


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
    """Calls of a loss with ``model``, in which ``leaves`` have the values that are given."""

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
