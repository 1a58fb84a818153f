"""User-defined containers into which checks put tensors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import unidev


class Point(NamedTuple):
    """A namedtuple."""

    x: Any
    y: Any


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


class Unknown(dict[str, Any]):
    """An unregistered mapping."""
