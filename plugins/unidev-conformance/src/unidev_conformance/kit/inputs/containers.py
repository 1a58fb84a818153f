"""User-defined containers and objects into which checks put tensors."""

from __future__ import annotations

from collections import UserDict
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from logging import getLogger
from pathlib import PurePosixPath
from random import Random
from threading import Lock
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import Mock

import unidev

if TYPE_CHECKING:
    from collections.abc import Callable


class Point(NamedTuple):
    """A namedtuple."""

    x: Any
    y: Any


class Subclassed(Point):
    """A namedtuple that may have attributes."""


@unidev.register_container
@dataclass
class Batch:
    """A dataclass with a field that ``__init__`` does not take."""

    data: Any
    label: Any
    seen: int = field(default=0, init=False)


@unidev.register_container
@dataclass(frozen=True)
class Frozen:
    """A frozen dataclass."""

    data: Any
    name: Any


class Custom:
    """Not a dataclass: registered with functions."""

    def __init__(self, parts: list[Any], note: str) -> None:
        self.parts = parts
        self.note = note


unidev.register_container(
    Custom,
    lambda custom: (custom.parts, custom.note),
    lambda note, parts: Custom(list(parts), note),
)


@unidev.register_container
@dataclass
class Output(dict[str, Any]):
    """A dataclass whose fields are also items of the mapping that it is."""

    data: Any

    def __post_init__(self) -> None:
        self["data"] = self.data


@dataclass
class Longer(Output):
    """Not registered, unlike its base."""

    mask: Any


class Mapping(dict[str, Any]):
    """A mapping that is not registered."""

    def __init__(self, x: Any) -> None:
        super().__init__(x=x)


class Rows(list[Any]):
    """A list that is not registered, with an attribute."""

    def __init__(self, x: Any) -> None:
        super().__init__([x, 3])
        self.note = "rows"


class Wrapped(UserDict[str, Any]):
    """A mapping that keeps its items in an attribute, as transformers' ``BatchEncoding`` does."""

    def __init__(self, x: Any) -> None:
        super().__init__({"x": x})


@dataclass
class Plain:
    """A dataclass that is not registered."""

    x: Any
    note: str = "plain"


class Fields:
    """As attrs makes classes: its fields are slots."""

    __slots__ = ("x",)
    __attrs_attrs__ = ()

    def __init__(self, x: Any) -> None:
        self.x = x


class MoreFields(Fields):
    """Its base's slots are fields, too."""

    __slots__ = ("note",)

    def __init__(self, x: Any) -> None:
        super().__init__(x)
        self.note = "more"


@dataclass(slots=True)
class Slots:
    """A dataclass whose fields are slots."""

    x: Any


@dataclass(slots=True)
class MoreSlots(Slots):
    """The slots of its base are not in its own ``__slots__``."""

    note: str = "more"


def kinds_with(x: Any) -> list[tuple[Any, Callable[[Any], Any]]]:
    """Containers of classes that are not registered, and how tensor ``x`` is read from each."""
    return [
        (Plain(x), lambda tree: tree.x), (Fields(x), lambda tree: tree.x),
        (Mapping(x), lambda tree: tree["x"]), (Wrapped(x), lambda tree: tree["x"]),
        (Rows(x), lambda tree: tree[0]), (MoreFields(x), lambda tree: tree.x),
        (Slots(x), lambda tree: tree.x), (MoreSlots(x), lambda tree: tree.x),
        (Plain(Rows(Fields(x))), lambda tree: tree.x[0].x),
    ]  # fmt: skip


class Holder:
    """An object of whatever attributes; asked for anything else, it fails."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"the attribute {name} was asked for")


class Mover(Holder):
    """One with a ``to`` that fails: that it has it does not say that it holds a tensor."""

    def to(self, *_arguments: Any) -> Any:
        """Fails."""
        raise RuntimeError("to was called")


class SelfMoving:
    """An object with a ``to`` that works in place and returns the object, as is usual."""

    def __init__(self, x: Any, rest: Any = None) -> None:
        self.x = x
        self.rest = rest

    def to(self, device: Any) -> SelfMoving:
        """Move ``x``."""
        self.x = unidev.as_in_device(self.x, device)
        return self


class ForgetsOne(SelfMoving):
    """Its ``to`` moves ``x``, and leaves ``rest`` behind."""


class ChangesSource(SelfMoving):
    """Its ``to`` changes the list that it shares with the object that it was copied from."""

    def to(self, device: Any) -> ChangesSource:
        """Move what is in ``x``, in place."""
        self.x[:] = unidev.as_in_device(self.x, device)
        return self


class Slotted:
    """An object without a ``__dict__``."""

    __slots__ = ("held",)

    def __init__(self, held: Any) -> None:
        self.held = held


class MoreSlotted(Slotted):
    """One whose base has the slot."""

    __slots__ = ("more",)


class Color(Enum):
    """An enum."""

    RED = 1


def objects_with(x: Any) -> list[tuple[Any, str]]:
    """Objects that hold tensor ``x``, each with the path to it."""
    store = Holder(items={"x": x})
    store.__dict__["parent"] = store
    return [
        (Holder(data=x), ".data"), (Holder(data=[None, (x,)]), ".data[1][0]"),
        (Slotted(x), ".held"), (MoreSlotted(x), ".held"),
        (Holder(store=store), ".store.items['x']"),
        (Holder(layers=[Slotted(1), Slotted(x)]), ".layers[1].held"),
        ({Holder(data=x)}, "[0].data"),
    ]  # fmt: skip


def objects_without(x: Any) -> list[Any]:
    """Objects that hold no tensor, though a function among them uses ``x``."""
    circular = Holder(name="again")
    circular.__dict__["self"] = [circular]
    return [
        PurePosixPath("image.png"), datetime(2026, 1, 1), Color.RED, lambda: x, type(x),
        Holder(), Mover(data=[1, {"a": "b"}]), Slotted(2), circular, SimpleNamespace(a=1),
        Lock(), Random(0), Mock(), getLogger(__name__),  # noqa: S311  no secret is made with it
    ]  # fmt: skip
