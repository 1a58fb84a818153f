"""The classes whose objects hold others: those that unidev can look into, and those it cannot."""

from __future__ import annotations

from collections.abc import Generator, Mapping, MappingView, Sequence, Set

_LAZY = (Generator, map, filter, zip, enumerate, reversed)
"""May yield tensors, but only once: looking would consume them."""

_HARMLESS = (str, bytes, bytearray, memoryview, range)
"""Sequences whose items cannot be tensors."""


def is_container_type(cls: type) -> bool:
    """Whether objects of the class hold, or may hold, other objects."""
    if is_lazy(cls):
        return True
    if issubclass(cls, (Mapping, Sequence, Set)):
        from array import array  # numbers only, and since Python 3.10 a Sequence

        return not issubclass(cls, (*_HARMLESS, array))
    return is_dataclass(cls)


def is_dataclass(cls: type) -> bool:
    """``dataclasses.is_dataclass``: importing that module takes longer than all of unidev."""
    return any("__dataclass_fields__" in base.__dict__ for base in cls.__mro__)


def is_lazy(cls: type) -> bool:
    """Whether objects of the class hold items of others, which cannot be put back into them."""
    return issubclass(cls, (*_LAZY, MappingView))
