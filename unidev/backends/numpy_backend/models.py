"""NumPy's models: dicts and lists of arrays, possibly nested, and layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.backends.numpy_backend.nn.layers import Layer
from unidev.backends.numpy_backend.simulated_array import SimulatedArray
from unidev.contract import kind_of
from unidev.contract.containers import is_container_type
from unidev.contract.models import Models, Stored, is_number
from unidev.errors import InvalidDataError, UnsupportedOperation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from unidev.contract import Device

    Array = np.ndarray[Any, Any]

_MODELS = (dict, list, tuple, Layer)


class Slot:
    """An array, and every place that holds it."""

    def __init__(self, array: Array) -> None:
        self.array = array
        self.places: list[tuple[Any, Any]] = []
        """Pairs of a container and the key in it."""


class NumpyModels(Models):
    """Arrays cannot move: the containers stay the same objects and receive new arrays."""

    takes_containers = True

    def parameters(self, model: Any) -> Mapping[str, Array]:
        """Every array except buffers of layers; one that occurs twice, under its first name."""
        unique: dict[int, tuple[str, Array]] = {}
        for name, (container, array) in self._named(model).items():
            is_buffer = name.rpartition(".")[2] in self.statistics_names
            if not (is_buffer and isinstance(container, Layer)):
                unique.setdefault(id(array), (name, array))
        return dict(unique.values())

    def trainable(self, model: Any) -> Mapping[str, Array]:
        """All parameters: NumPy cannot freeze any."""
        return self.parameters(model)

    def tensors(self, model: Any) -> Mapping[str, Array]:
        """All arrays by the keys that lead to them, joined with dots."""
        return {name: array for name, (_, array) in self._named(model).items()}

    def parts(self, model: Any, optimizer: Any) -> Sequence[Slot]:
        """One slot per array, however many places hold it."""
        if optimizer is not None:
            raise UnsupportedOperation("placing an optimizer", "NumPy has none")
        slots: dict[int, Slot] = {}
        for path, container, key, array in self._walk(model, (), ()):
            if not isinstance(container, (dict, list, Layer)):
                raise UnsupportedOperation(
                    f"placing the array {'.'.join(path)!r} of a {kind_of(container)}",
                    "only dicts and lists can receive a new array in place; use those, or "
                    "as_in_device(x, device), which returns a new container",
                )
            slots.setdefault(id(array), Slot(array)).places.append((container, key))
        return list(slots.values())

    def is_on(self, part: Slot, device: Device) -> bool:
        """Whether its array is on ``device``."""
        return self.backend.device_of(part.array) is device

    def twin(self, part: Slot, device: Device) -> Slot:
        """A slot with a copy that no container holds yet."""
        return Slot(self.backend.copy_to(part.array, device, False))

    def swap(self, part: Slot, twin: Slot) -> None:
        """Exchange the arrays, and store the new one wherever the old one was."""
        part.array, twin.array = twin.array, part.array
        for container, key in part.places:
            container[key] = part.array

    def stored(self, model: Any) -> Mapping[str, Stored]:
        """All arrays."""
        return {name: Stored(array) for name, array in self.tensors(model).items()}

    def numbers(self, model: Any) -> Mapping[str, Any]:
        """Beside the arrays, in dicts, lists and tuples."""
        return {".".join(path): x for path, *_, x in self._walk(model, (), (), is_number)}

    def with_numbers(self, model: Any, numbers: Mapping[str, Any]) -> Any:
        """Set in dicts and lists, and in new tuples instead of those that have one of them."""
        return self._with_numbers(model, "", numbers)

    def _with_numbers(self, node: Any, path: str, numbers: Mapping[str, Any]) -> Any:
        new = {}
        for name, container, key in [*_entries(node)]:
            child, here = container[key], f"{path}{name}"
            value = numbers.get(here, child)
            if isinstance(child, _MODELS):
                value = self._with_numbers(child, f"{here}.", numbers)
            if value is not child and isinstance(node, tuple):
                new[key] = value
            elif value is not child:
                container[key] = value
        if not new:
            return node
        items = [new.get(key, child) for key, child in enumerate(node)]
        return tuple.__new__(type(node), items)

    def unstorable(self, x: Array) -> str | None:
        """Masked arrays."""
        is_masked = isinstance(x, np.ma.MaskedArray)
        return "it has masked elements: keep x.filled(value)" if is_masked else None

    def read(self, x: Array) -> Array:
        """The array's own memory; for a third-party subclass, a copy, if it can be read at all."""
        if type(x) in (np.ndarray, SimulatedArray) and not x.dtype.hasobject:
            return x.view(np.ndarray)
        return self.backend.to_numpy(x)

    def write(self, x: Array, values: Array) -> None:
        """``x[...] = values`` on a plain view: a simulated array refuses values on the host."""
        x.view(np.ndarray)[...] = values

    def _named(self, model: Any) -> dict[str, tuple[Any, Array]]:
        """Each array by its name, with the container that holds it."""
        found: dict[str, tuple[Any, Array]] = {}
        for path, container, _, array in self._walk(model, (), ()):
            name = ".".join(path)
            if name in found:
                raise InvalidDataError(f"two arrays of this model have the name {name!r}.")
            found[name] = container, array
        return found

    def _walk(
        self,
        node: Any,
        path: tuple[str, ...],
        above: tuple[int, ...],
        is_wanted: Callable[[Any], bool] = lambda x: isinstance(x, np.ndarray),
    ) -> Iterator[tuple[tuple[str, ...], Any, Any, Any]]:
        """Each array: its path, the container that holds it, its key there, and the array."""
        if id(node) in above:
            raise InvalidDataError(f"this model contains itself, at {'.'.join(path)!r}.")
        if not isinstance(node, _MODELS):
            at = f" at {'.'.join(path)!r} of a model" if path else ""
            raise UnsupportedOperation(
                f"looking into the {kind_of(node)}{at}",
                "NumPy's models are dicts, lists and tuples of arrays",
            )
        for name, container, key in _entries(node):
            here, child = (*path, name), container[key]
            if is_wanted(child):
                yield here, container, key, child
            elif isinstance(child, _MODELS) or is_container_type(type(child)):
                yield from self._walk(child, here, (*above, id(node)), is_wanted)


def _entries(node: Any) -> Iterator[tuple[str, Any, Any]]:
    """The name of each item in ``node``, with the container that holds it and its key."""
    if isinstance(node, Layer):
        return node.entries()
    keys = node if isinstance(node, dict) else range(len(node))
    return ((str(key), node, key) for key in keys)
