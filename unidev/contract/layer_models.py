"""``LayerModels``: models of layers that have variables, and further layers in their attributes."""

from __future__ import annotations

import random
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

from unidev.contract.listed_models import ListedModels
from unidev.contract.models import Stored, found_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping


class ModelVariable(NamedTuple):
    """A variable at one of its places in a model."""

    name: str
    variable: Any
    is_parameter: bool
    """Whether training changes it, or would change it if it were not frozen."""
    is_saved: bool = True
    """False for the state of random generators, which checkpoints omit."""
    axes: tuple[int, ...] | None = None
    """See ``Stored``."""


_PLAIN = frozenset({bool, int, float, str, type(None)})


class LayerModels(ListedModels):
    """Models made of layers, for frameworks in which a variable has no name that stays the same.

    Names it by the attributes and positions that lead to it: the same each time such a
    model is built, and in each framework in which such layers run.
    """

    internal: tuple[str, ...] = ()
    """Prefixes of attributes that only repeat what another attribute holds."""

    @abstractmethod
    def is_layer(self, x: Any, /) -> bool:
        """Whether ``x`` is a layer, or a model of layers."""

    @abstractmethod
    def has_variables(self, x: Any) -> bool:
        """Whether ``x`` is a variable, a layer, or another part of a model."""

    @abstractmethod
    def own(self, part: Any, path: str) -> Iterable[ModelVariable]:
        """The variables of ``part`` itself, which may share a name; a variable's is empty.

        Raises:
            UnsupportedOperation: it has no variables until it is built; states how to build it.
        """

    @abstractmethod
    def within(self, part: Any) -> Iterable[Any]:
        """The layers and other parts directly inside ``part``."""

    def sequence(self, layer: Any) -> Iterable[Any]:  # noqa: ARG002
        """The layers inside ``layer`` whose names are their positions."""
        return ()

    # -- the tree ----------------------------------------------------------------------------------

    def walk(self, model: Any) -> Iterator[ModelVariable]:
        """Every variable of ``model``, at each of its places, a layer's own first."""
        return self._walk(model, "", ())

    def all_layers(self, model: Any) -> list[Any]:
        """Each layer that ``model`` contains, itself included."""
        found: dict[int, Any] = {}
        pending = [model]
        while pending:
            part = pending.pop()
            if id(part) not in found:
                found[id(part)] = part
                pending.extend(self.within(part))
        return list(filter(self.is_layer, found.values()))

    def kept(self, model: Any, is_wanted: Callable[[Any], bool]) -> list[Any]:
        """What layers keep in attributes and in containers there, such as optimizers."""
        found: list[Any] = []
        pending: list[Any] = [vars(layer) for layer in self.all_layers(model)]
        seen: dict[int, Any] = {}
        for (
            held
        ) in pending:  # not `found_in`, whose names take longer than all else in a small model
            for x in held.values() if isinstance(held, dict) else held:
                if type(x) in _PLAIN:
                    continue
                if not isinstance(x, (dict, list, tuple)):
                    if is_wanted(x):
                        found.append(x)
                elif id(x) not in seen:
                    seen[id(x)] = x
                    pending.append(x)
        return found

    def children(self, part: Any, seen: set[int]) -> Iterator[tuple[str, Any]]:
        """The parts inside ``part`` by name, without variables whose ids are in ``seen``.

        By position for layers in a sequence, else by attribute; by both if it has both.
        """
        if not self.is_layer(part):
            return
        sequence = list(self.sequence(part))
        for index, child in enumerate(sequence):
            yield str(index), child
        seen = seen | set(map(id, sequence))
        reached = set(seen)
        for name, value in vars(part).items():
            # A framework keeps lists in private containers of its own.
            is_list = name.startswith("_") and isinstance(value, (list, tuple, dict))
            if is_list or name.startswith(self.internal):
                continue
            for child_name, child in found_in(value, self.has_variables, name):
                if id(child) not in seen:
                    yield child_name, child
                    reached.add(id(child))
        for index, child in enumerate(self.within(part)):
            if id(child) not in reached:
                yield f"layers.{index}", child

    def _walk(self, part: Any, path: str, above: tuple[int, ...]) -> Iterator[ModelVariable]:
        if id(part) in above:
            return
        own = list(self.own(part, path))
        counts: dict[str, int] = {}
        for found in own:
            number = counts[found.name] = counts.get(found.name, -1) + 1
            name = f"{found.name}_{number}" if number else found.name
            yield found._replace(name=_joined(path, name))
        for name, child in self.children(part, {id(found.variable) for found in own}):
            yield from self._walk(child, _joined(path, name), (*above, id(part)))

    # -- as in ``ListedModels`` --------------------------------------------------------------------

    def listed(self, model: Any) -> Iterator[tuple[str, Any, bool | None]]:
        """By ``walk``, and ``trainable``, which freezing clears, if the dtype has gradients."""
        for name, x, is_parameter, *_ in self.walk(model):
            yield name, x, (x.trainable and _is_real(x.dtype)) if is_parameter else None

    def copy(self, model: Any) -> Any:
        """As ``Models.copy``; layers that are made anew may draw seeds, which is undone."""
        state = random.getstate()
        try:
            return super().copy(model)
        finally:
            random.setstate(state)

    def random_states(self, model: Any) -> Mapping[str, Any]:
        """The generators' states in the model: the only variables not saved."""
        return {found.name: found.variable for found in self.walk(model) if not found.is_saved}

    def stored(self, model: Any) -> Mapping[str, Stored]:
        """All variables but the states of random generators."""
        return {
            found.name: Stored(found.variable, found.axes)
            for found in self.walk(model)
            if found.is_saved
        }


def _is_real(dtype: Any) -> bool:
    """Whether there are gradients with respect to a dtype, or its name; not for integers."""
    return getattr(dtype, "name", str(dtype)).startswith(("float", "bfloat", "complex"))


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path and name else path or name
