"""The attributes and items that an object holds.

None of its code runs, such as properties, ``__getattr__``, ``__class__``, ``__iter__``: attributes
are read by the interpreter's own descriptors, items by the methods of the builtin types.
"""

from __future__ import annotations

import gc
import weakref
from collections import deque
from itertools import islice
from types import GetSetDescriptorType, MemberDescriptorType

from unidev.system.wording import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    Step = tuple[bool, object]
    """Whether it is an attribute, and its name; or else the key or the position of an item."""


values_of: weakref.WeakKeyDictionary[type, Callable[[Any], Iterable[Any]]]
values_of = weakref.WeakKeyDictionary()
"""Quick functions that list an object's values, by class: of classes without registration."""

ITEMS: dict[type, Callable[[Any], Iterator[Any]]] = {
    cls: cls.__iter__ for cls in (list, tuple, set, frozenset, deque)
}
"""The builtin types of containers whose items have no keys."""

_DESCRIPTORS = (GetSetDescriptorType, MemberDescriptorType)
"""The interpreter's own, of ``__dict__`` and of slots."""

HEAP_TYPE = 1 << 9
"""A bit of ``__flags__``: not a builtin's, so its attributes may change."""

_attributes: weakref.WeakKeyDictionary[type, Sequence[tuple[int, str]]]
_attributes = weakref.WeakKeyDictionary()


def attributes_of(cls: type) -> Sequence[tuple[int, str]]:
    """``__dict__`` and the slots of a class, each with the position in the mro of its class.

    These cannot change. (The descriptors would keep the class alive.)
    """
    found = _attributes.get(cls)
    if found is None:
        every = [
            (position, name)
            for position, base in reversed([*enumerate(cls.__mro__)])
            # Of a builtin's other members, such as a function's ``__globals__``, none is a slot.
            for name in (base.__dict__ if "__slots__" in base.__dict__ else ("__dict__",))
            if type(base.__dict__.get(name)) in _DESCRIPTORS and name != "__weakref__"
        ]
        dicts = [each for each in every if each[1] == "__dict__"]  # of several bases, for one dict
        found = _attributes[cls] = [each for each in every if each not in dicts[:-1]]
    return found


def is_looked_into(cls: type) -> bool:
    """Whether the attributes of an object of this class have been read before."""
    return cls in _attributes


def contents(x: Any, most: int | None = None) -> Iterator[tuple[Step, Any]]:
    """The attributes and items that ``x`` holds, of each kind at most ``most``."""
    cls = type(x)
    bases = cls.__mro__
    for position, name in attributes_of(cls):
        descriptor: Any = bases[position].__dict__.get(name)
        if type(descriptor) not in _DESCRIPTORS:  # replaced meanwhile
            continue
        if name == "__dict__" and not (
            bases[position].__flags__ & HEAP_TYPE
            or any(type(held) is dict for held in gc.get_referents(x))
        ):
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


def _steps(
    is_attribute: bool, items: Iterable[tuple[object, object]], most: int | None
) -> Iterator[tuple[Step, object]]:
    # All at once: a dict must not change meanwhile.
    return (((is_attribute, key), value) for key, value in tuple(islice(items, most)))


def written(step: Step) -> str:
    """``.name`` or ``['key']``."""
    is_attribute, key = step
    if is_attribute:
        return f".{key}" if type(key) is str else f".{shown(key)}"
    return f"[{shown(key)}]"
