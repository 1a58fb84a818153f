"""Objects that hold tensors, or only look as if they did, and do not want to be asked."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any


class Storage:
    """torch_geometric's ``GlobalStorage``: a mapping in an attribute, which asks for the others."""

    def __init__(self, **items: Any) -> None:
        self.__dict__["_mapping"] = items

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was asked for")


class Attrs:
    """A class of attrs with slots, one of them private, and a subclass with a ``__dict__``."""

    __slots__ = ("__weakref__", "__x", "unset")

    def __init__(self, x: Any) -> None:
        self.__x = x


class AttrsChild(Attrs):
    pass


class Fake:
    """Says that it is another class."""

    def __init__(self, **items: Any) -> None:
        vars(self).update(items)

    @property
    def __class__(self) -> type:  # type: ignore[override]
        raise AssertionError("__class__ was asked for")


class Lazy:
    """A lazy object: whatever is asked of it makes it load."""

    def __init__(self, wrapped: Any) -> None:
        object.__setattr__(self, "_wrapped", wrapped)

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"{name} was asked for")

    def __iter__(self) -> Any:
        raise AssertionError("it was iterated over")


class Meta(type):
    def __getattr__(cls, name: str) -> Any:
        raise AssertionError(f"{name} of the class was asked for")


def of_meta(x: Any) -> Any:
    class OfMeta(metaclass=Meta):  # not of the module: pytest would ask it
        def __init__(self, x: Any) -> None:
            self.x = x

    return OfMeta(x)


class OwnDict:
    """Its ``__dict__`` raises; the interpreter's own is out of reach."""

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        raise AssertionError("__dict__ was asked for")


class Slippery(dict):  # type: ignore[type-arg]
    """A dict whose own methods fail."""

    __iter__ = items = values = keys = __getitem__ = None  # type: ignore[assignment]


@dataclasses.dataclass
class Config:
    x: Any


class Color(enum.Enum):
    RED = 1


class Level(enum.IntFlag):
    LOW = 1


class Movable:
    """A ``to`` alone is no evidence: tokenizers, dtypes and loggers may have one."""

    def to(self, device: Any) -> Movable:
        raise AssertionError("to was called")


class ListOf(list):  # type: ignore[type-arg]
    pass
