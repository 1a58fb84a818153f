"""Finds tensors in objects that unidev cannot take apart, without running any of their code.

Attributes are read by the interpreter's own descriptors, items by the methods of the builtin types:
properties, ``__getattr__``, ``__class__`` and ``__iter__`` of the object play no part.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections import deque
from itertools import islice
from types import GetSetDescriptorType, MemberDescriptorType, ModuleType

from unidev.registry.loading import backend_of_namespace, backend_of_type
from unidev.support.wording import shown
from unidev.tensors.classify import PLAIN, is_container_type

TYPE_CHECKING = False  # not typing's: importing that takes as long as all of unidev
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from unidev.contract.backend import Backend

    Step = tuple[bool, object]
    """Whether it is an attribute, and its name; or else the key or the position of an item."""
    Link = tuple[Any, Step]
    """The link to the holder (None: the object itself), and the step from there."""

_MOST = 10_000
"""The most attributes and items that are looked at: lists of numbers may be long."""

_MOST_HOLDERS = 1_000
"""The most objects and containers that are gone into: a registry of units has more."""

_DEEPEST = 8
"""How far from the object; the tensors of a graph of torch_geometric are 4 steps away."""

_PLAIN_MODULES = ("pathlib", "pathlib._local", "datetime", "decimal", "fractions", "uuid")

_HEAP_TYPE = 1 << 9  # of ``__flags__``: not a builtin's, so its attributes may change

ITEMS: dict[type, Callable[[Any], Iterator[Any]]] = {
    cls: cls.__iter__ for cls in (list, tuple, set, frozenset, deque)
}

_DESCRIPTORS = (GetSetDescriptorType, MemberDescriptorType)

_attributes: weakref.WeakKeyDictionary[type, Sequence[tuple[int, str]]]
_attributes = weakref.WeakKeyDictionary()
"""``__dict__`` and the slots of a class, each with the position in the mro of the class that has
it: these cannot change. (The descriptors would keep the class alive.)"""


def path_to_tensor(x: object, *, counts_numpy: bool) -> str | None:
    """The path, such as ``.layers[0].keys``, to a tensor that ``x`` holds, or None."""
    return next((path for path, *_ in tensors_within(x, counts_numpy=counts_numpy)), None)


def tensors_within(x: object, *, counts_numpy: bool) -> Iterator[tuple[str, Any, Backend]]:
    """Each tensor that ``x`` holds, with its path and backend.

    Looks through attributes, slots, dicts, lists, tuples, sets and the objects in them, the nearest
    first, as far as the limits above. Not through functions' closures, classes and modules.
    """
    level: list[tuple[Link | None, object]] = [(None, x)]
    seen: set[int] = set()
    others: set[type] = set()
    left = _MOST
    for _ in range(_DEEPEST):
        following: list[tuple[Link | None, object]] = []
        for link, holder in level:
            if id(holder) in seen or is_plain(type(holder)):
                continue
            if len(seen) == _MOST_HOLDERS:
                return
            seen.add(id(holder))
            for step, value in islice(contents(holder, left), left):
                left -= 1
                cls = type(value)
                if cls in PLAIN:
                    continue
                backend = None if cls in others else backend_of_type(cls)
                if backend is None:
                    others.add(cls)
                    following.append(((link, step), value))
                elif (
                    counts_numpy
                    or backend.spec.framework != "numpy"
                    or backend.device_of(value).kind != "cpu"  # no longer data of the host's
                ):
                    yield _path((link, step)), value, backend
        level = following


def is_plain(cls: type) -> bool:
    """Whether objects of exactly this class never hold a tensor; remembered in ``PLAIN``."""
    if cls not in PLAIN:
        if cls in _attributes or not _is_plain(cls):
            return False
        PLAIN.add(cls)
    return True


def is_opaque(cls: type) -> bool:
    """Whether nothing can be read of what objects of this class hold."""
    return not (_attributes_of(cls) or issubclass(cls, (dict, *ITEMS)))


def _is_plain(cls: type) -> bool:
    enum = sys.modules.get("enum")
    if cls.__dict__.get("__module__") in _PLAIN_MODULES or issubclass(cls, (type, ModuleType)):
        return True
    if enum is not None and issubclass(cls, enum.Enum):
        return True
    if not cls.__flags__ & _HEAP_TYPE and is_opaque(cls) and not is_container_type(cls):
        return True
    backend = backend_of_namespace(cls)
    return backend is not None and cls in {
        type(backend.cpu.native), *map(type, backend.dtypes.values())
    }  # fmt: skip


def contents(x: Any, most: int | None = None) -> Iterator[tuple[Step, object]]:
    """The attributes and items that ``x`` holds, of each kind at most ``most``."""
    cls = type(x)
    bases = cls.__mro__
    for position, name in _attributes_of(cls):
        descriptor: Any = bases[position].__dict__.get(name)
        if type(descriptor) not in _DESCRIPTORS:  # replaced meanwhile
            continue
        if name == "__dict__" and not (bases[position].__flags__ & _HEAP_TYPE or _has_dict(x)):
            continue  # an exception's, say: reading it would make one
        try:
            value = descriptor.__get__(x)
        except (AttributeError, TypeError):  # a slot that was never set, or is another class's
            continue
        if name != "__dict__":
            yield (True, name), value
        elif type(value) is dict:
            yield from _steps(True, value.items(), most)
    if issubclass(cls, dict):
        yield from _steps(False, dict.items(x), most)
    for base, items in ITEMS.items():
        if issubclass(cls, base):
            yield from _steps(False, enumerate(items(x)), most)


def only_dict_of(cls: type) -> Callable[[Any], dict[str, Any]] | None:
    """Reads the ``__dict__`` of objects of ``cls``, if they hold nothing besides."""
    found = _attributes_of(cls)
    if len(found) != 1 or found[0][1] != "__dict__" or issubclass(cls, (dict, *ITEMS)):
        return None
    read: Callable[[Any], dict[str, Any]] = cls.__mro__[found[0][0]].__dict__["__dict__"].__get__
    return read


def path_entry(step: Step) -> str:
    """``.name`` or ``['key']``."""
    is_attribute, key = step
    if is_attribute:
        return f".{key}" if type(key) is str else f".{shown(key)}"
    return f"[{shown(key)}]"


def _has_dict(x: object) -> bool:
    return any(type(held) is dict for held in gc.get_referents(x))


def _steps(
    is_attribute: bool, items: Iterable[tuple[object, object]], most: int | None
) -> Iterator[tuple[Step, object]]:
    # All at once: a dict must not change meanwhile.
    return (((is_attribute, key), value) for key, value in tuple(islice(items, most)))


def _attributes_of(cls: type) -> Sequence[tuple[int, str]]:
    found = _attributes.get(cls)
    if found is None:
        found = _attributes[cls] = [
            (position, name)
            for position, base in reversed([*enumerate(cls.__mro__)])
            # Of a builtin's other members, such as a function's ``__globals__``, none is a slot.
            for name in (base.__dict__ if "__slots__" in base.__dict__ else ("__dict__",))
            if type(base.__dict__.get(name)) in _DESCRIPTORS and name != "__weakref__"
        ]
    return found


def _path(link: Link | None) -> str:
    entries = []
    while link is not None:
        link, step = link
        entries.append(path_entry(step))
    return "".join(reversed(entries))
