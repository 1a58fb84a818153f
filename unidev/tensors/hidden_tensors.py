"""Tensors inside of an object of no known kind: found, and moved by the object's own ``to``.

Attributes and items are read as in ``contents``. A class without visible contents that the program
has registered with a framework is taken apart by the registered function.
"""

from __future__ import annotations

import copy
from collections import OrderedDict, defaultdict
from itertools import islice
from typing import TYPE_CHECKING, Any

from unidev.backends.boundary import call
from unidev.backends.loading import backend_of_type
from unidev.contract.optional import Unsupported
from unidev.errors import UnsupportedContainerError
from unidev.system.wording import kind_of
from unidev.tensors.contents import ITEMS, contents, written
from unidev.tensors.kinds import MODEL, PLAIN, TENSOR, classify, extents_of, is_plain
from unidev.tensors.taking_apart import children_of, registered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import NoReturn

    from unidev.contract.backend import Backend
    from unidev.device import Device
    from unidev.tensors.contents import Step


_BUILTINS = frozenset({dict, *ITEMS})
_DICTS = frozenset({dict, OrderedDict, defaultdict})

_MOST = 10_000
"""The most attributes and items that are looked at: lists of numbers may be long."""

_MOST_HOLDERS = 1_000
"""The most objects and containers that are gone into: a registry of units has more."""

_DEEPEST = 8
"""How far from the object; the tensors of a graph of torch_geometric are 4 steps away."""


def path_to_tensor(x: object, *, counts_numpy: bool) -> str | None:
    """The path, such as ``.layers[0].keys``, to a tensor that ``x`` holds, or None."""
    return next((path for path, *_ in tensors_within(x, counts_numpy=counts_numpy)), None)


def tensors_within(x: object, *, counts_numpy: bool) -> Iterator[tuple[str, Any, Backend]]:
    """Each tensor that ``x`` holds, with its path and backend.

    Looks through attributes, slots, dicts, lists, tuples, sets and the objects in them, the nearest
    first, as far as the limits above. Not through functions' closures, classes and modules.
    """
    level: list[tuple[tuple[Step, ...], object]] = [((), x)]
    seen: set[int] = set()
    others: set[type] = set()
    left = _MOST
    for _ in range(_DEEPEST):
        following: list[tuple[tuple[Step, ...], object]] = []
        for steps, holder in level:
            if id(holder) in seen or is_plain(type(holder)):
                continue
            if len(seen) == _MOST_HOLDERS:
                return
            seen.add(id(holder))
            before = left
            for step, value in islice(contents(holder, left), left):
                left -= 1
                cls = type(value)
                if cls in PLAIN or (
                    cls is dict and PLAIN.issuperset(map(type, tuple(value.values())))
                ):  # many, of numbers, are in the metadata of a state dict
                    continue
                backend = None if cls in others else backend_of_type(cls)
                if backend is None:
                    others.add(cls)
                    following.append(((*steps, step), value))
                elif (
                    counts_numpy
                    or backend.spec.framework != "numpy"
                    or backend.device_of(value).kind != "cpu"  # no longer data of the host's
                ):
                    yield "".join(map(written, (*steps, step))), value, backend
            if left == before and type(holder) not in _BUILTINS:
                # No visible contents, as a partial function has none.
                found = children_of(holder)
                following += [] if found is None else [(steps, [*found[0].values()])]
        level = following


def holds_more(x: Any) -> bool:
    """Whether optree, which takes apart ``x`` by its items, would miss attributes, or tensor keys.

    Called for each container and leaf.
    """
    cls = type(x)
    if cls in _DICTS:
        return (not PLAIN.issuperset(map(type, x)) and key_with_tensor(x) is not None) or (
            cls is OrderedDict and bool(x.__dict__)
        )
    return (
        cls is not tuple
        and issubclass(cls, tuple)
        and cls not in registered
        and any(is_attribute for (is_attribute, _), _ in contents(x))
    )


def key_with_tensor(x: dict[Any, Any]) -> object:
    """The first key that is a tensor or holds one, as a tuple may, or else None.

    Arrays of NumPy's that an object holds are data.
    """
    keys = [key for key in tuple(dict.keys(x)) if type(key) not in PLAIN]
    return next(filter(_is_or_holds_tensor, keys), None)


def _is_or_holds_tensor(key: object) -> bool:
    kind, _ = classify(key)
    return kind == TENSOR or (
        kind != MODEL  # modules may be keys: as they have an identity, they stay the same
        and not is_plain(type(key))
        and any(
            owner is not None and owner.spec.framework != "numpy"
            for owner in (backend_of_type(type(held)) for _, held in contents(key, _MOST))
        )
    )


def has_own_to(cls: type) -> bool:
    """Whether ``cls`` defines a method ``to``, which may move its objects."""
    return any(callable(base.__dict__.get("to")) for base in cls.__mro__)


class Movable:
    """An object of no known kind whose own ``to`` moves its tensors."""

    def __init__(self, owner: Any, *, is_copied: bool, counts_numpy: bool) -> None:
        self.owner = owner
        self._is_copied = is_copied
        self._counts_numpy = counts_numpy
        self.tensors = self._tensors(owner)
        """Each with its path in the object and its backend."""

    @property
    def backend(self) -> Backend:
        """That of the first tensor."""
        return self.tensors[0][2]

    def mapped(self, transfer: Callable[[Any, Backend], Any]) -> Any:
        """The object itself if ``transfer`` moves none of its tensors, else a copy moved by ``to``.

        Raises:
            UnsupportedContainerError: ``to`` raised, left a tensor behind, shares memory with the
                object where a copy was wanted, or changed the object itself.
        """
        results = ((x, transfer(x, backend)) for _, x, backend in self.tensors)
        moved = next((new for x, new in results if new is not x), None)
        if moved is None:
            return self.owner
        device = self.backend.device_of(moved)
        try:
            made = copy.copy(self.owner)
            made = call(self.backend, made.to, device.native, doing="calling the object's own `to`")
        except Exception as error:  # noqa: BLE001  the object's own code can raise anything
            self._refuse(f"raised {kind_of(error)}: {error}", error)
        self._check(made, device)
        return made

    def _check(self, made: Any, device: Device) -> None:
        after = self._tensors(made)
        if not after:
            self._refuse("returned an object without tensors")
        for path, x, backend in after:
            if backend.device_of(x) is not device:
                self._refuse(f"left {path} on {backend.device_of(x)}")
            if not self._is_copied:
                continue
            same = [y for _, y, owner in self.tensors if owner is backend]
            there = [y for y in same if backend.device_of(y) is device]
            if there and isinstance(backend.extents, Unsupported):
                self._refuse("may have copied nothing: its framework does not report addresses")
            if any(a.overlaps(b) for y in there for a in extents_of(x) for b in extents_of(y)):
                self._refuse(f"copied nothing: {path} has the memory of the source")
        now = self._tensors(self.owner)
        if [(path, id(x)) for path, x, _ in now] != [(path, id(x)) for path, x, _ in self.tensors]:
            self._refuse("changed the object that it was copied from")

    def _tensors(self, x: Any) -> list[tuple[str, Any, Backend]]:
        return list(tensors_within(x, counts_numpy=self._counts_numpy))

    def _refuse(self, what: str, cause: Exception | None = None) -> NoReturn:
        raise UnsupportedContainerError(
            f"{kind_of(self.owner)} holds a tensor, at {self.tensors[0][0]} in it, and its own "
            f"`to` {what}. Register its class: unidev.register_container(cls, flatten, "
            "unflatten); or pass its tensors by themselves."
        ) from cause
