"""Classes of the shape of libraries': objects that hold tensors, or only look as if they did."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import types
from typing import Any


class Storage:
    """torch_geometric's ``GlobalStorage``: a mapping in an attribute, which asks for the others."""

    def __init__(self, **items: Any) -> None:
        self.__dict__["_mapping"] = items

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was asked for")


class Data:
    """torch_geometric's ``Data``."""

    def __init__(self, **items: Any) -> None:
        self.__dict__["_store"] = Storage(_parent=self, **items)


class DynamicLayer:
    def __init__(self, keys: Any) -> None:
        self.keys = keys


class DynamicCache:
    """That of transformers: a list of layers."""

    def __init__(self, *layers: Any) -> None:
        self.layers = [DynamicLayer(layer) for layer in layers]


class DataBatch:
    """That of mx.io."""

    def __init__(self, data: list[Any]) -> None:
        self.data, self.label, self.provide_data = data, None, [("data", (2,))]


class Attrs:
    """A class of attrs with slots, one of them private, and a subclass with a ``__dict__``."""

    __slots__ = ("__weakref__", "__x", "unset")

    def __init__(self, x: Any) -> None:
        self.__x = x


class AttrsChild(Attrs):
    pass


class Pydantic:
    """pydantic's ``BaseModel``: slots beside the ``__dict__``, and a metaclass."""

    __slots__ = "__dict__", "extra"

    def __init__(self, **items: Any) -> None:
        self.__dict__.update(items)
        self.extra = None


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


class Series:
    """As pandas': a manager written in C, and attributes that are looked up among the labels."""

    __array_priority__ = 1000

    def __init__(self) -> None:
        object.__setattr__(self, "_mgr", memoryview(b"12"))
        object.__setattr__(self, "_attrs", {})

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was asked for")

    def __iter__(self) -> Any:
        raise AssertionError("it was iterated over")

    def __bool__(self) -> bool:
        raise ValueError("the truth value of a Series is ambiguous")


class Image:
    """As PIL's: pixels in C, a palette, and what the file says."""

    def __init__(self) -> None:
        self.im, self._mode, self._size = memoryview(b"12"), "RGB", (1, 2)
        self.info: dict[str, Any] = {"dpi": (72, 72), "icc_profile": b""}
        self.palette, self._exif = types.SimpleNamespace(colors={(0, 0, 0): 0}), None


class Encoding:
    """As that of tokenizers: no attributes, and a ``to`` that others take for a tensor's."""

    __slots__ = ()
    to = Movable.to


class Arrow:
    """As arrow's: a date."""

    def __init__(self) -> None:
        self._datetime = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)


class Registry:
    """As pint's: units that know their registry, which knows the units."""

    def __init__(self) -> None:
        self._units = {f"unit{i}": types.SimpleNamespace(registry=self) for i in range(1000)}


class Quantity:
    """As pint's."""

    def __init__(self) -> None:
        self._magnitude, self._units, self._REGISTRY = 3.0, {"metre": 1}, Registry()
