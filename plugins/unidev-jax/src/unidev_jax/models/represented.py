"""A Flax module while JAX differentiates it: a copy whose variables hold what JAX traces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unidev.contract import kind_of
from unidev.errors import UnsupportedOperation
from unidev_jax.models.flax import nnx
from unidev_jax.variables import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


class Representation:
    """Copies of ``model``, and what a loss has changed in one."""

    def __init__(self, model: Any, leaves: Iterable[Any]) -> None:
        self._graph, state = nnx.split(model)
        self._state: dict[Any, Any] = dict(nnx.to_flat_state(state))
        # Flax lists a shared variable once, at the first of its places.
        self._nodes = dict(nnx.iter_graph(model))
        paths = {id(x): path for path, x in self._nodes.items() if isinstance(x, nnx.Variable)}
        self._leaves = [paths[id(leaf)] for leaf in leaves]
        self._others = self._state.keys() - set(self._leaves)

    def evaluated(
        self, loss_of: Callable[[Any], Any], arrays: Sequence[Any]
    ) -> tuple[Any, Mapping[Any, Any]]:
        """The loss of a model with these values of the leaves, and what the loss changes in it."""
        represented = self.of(arrays)
        return plain(loss_of(represented)), self.changes_in(represented)

    def of(self, arrays: Sequence[Any]) -> Any:
        """A model in which these are the values of the leaves; ties and modes are those of ours."""
        given = {
            path: self._state[path].replace(array)
            for path, array in zip(self._leaves, arrays, strict=True)
        }
        state = nnx.from_flat_state({**self._state, **given})
        return nnx.merge(self._graph, state, copy=True)

    def changes_in(self, represented: Any) -> Mapping[Any, Any]:
        """What the loss has set there, except for the leaves: new values by path."""
        now = dict(nnx.to_flat_state(nnx.state(represented)))
        pairs = {path: (_value(self._state[path]), _value(now[path])) for path in self._others}
        return {path: new for path, (old, new) in pairs.items() if new is not old}

    def apply(self, changes: Mapping[Any, Any]) -> None:
        """Set them in the model itself."""
        for path, value in changes.items():
            own = self._nodes[path]
            if isinstance(own, nnx.Variable):
                own.set_raw_value(value)
            else:
                self._assign(path, value)

    def _assign(self, path: Any, value: Any) -> None:
        owner, key = self._nodes[path[:-1]], path[-1]
        if isinstance(owner, nnx.Pytree):
            setattr(owner, str(key), value)
        elif isinstance(owner, (dict, list)):
            owner[key] = value
        else:
            raise UnsupportedOperation(
                f"value_and_grad of a loss that sets {'.'.join(map(str, path))}",
                f"a {kind_of(owner)} cannot change: keep the array in an nnx.Variable",
            )


def _value(x: Any) -> Any:
    """The value of a variable; an array outside of any is its own."""
    return x.get_raw_value() if isinstance(x, nnx.Variable) else x
