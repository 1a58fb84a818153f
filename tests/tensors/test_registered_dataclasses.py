"""Registered dataclasses that are more than their fields: mappings, lists, and subclasses."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

import pytest

import unidev


class ModelOutput(collections.OrderedDict):  # type: ignore[type-arg]
    """As that of transformers: what is set by a key is set as an attribute, and the other way."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            if getattr(self, field.name) is not None:
                self[field.name] = getattr(self, field.name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self and value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def __reduce__(self) -> Any:
        called, _, *rest = super().__reduce__()
        return called, tuple(getattr(self, field.name) for field in dataclasses.fields(self)), *rest  # type: ignore[arg-type]


@unidev.register_container
@dataclasses.dataclass
class Output(ModelOutput):
    x: Any = None
    y: Any = None


@unidev.register_container
@dataclasses.dataclass
class Rows(list):  # type: ignore[type-arg]
    name: str

    def __init__(self, name: str, *rows: Any) -> None:
        super().__init__(rows)
        self.name = name


@unidev.register_container
@dataclasses.dataclass
class Fields(collections.UserDict):  # type: ignore[type-arg]
    x: Any

    def __post_init__(self) -> None:
        self.data = {"x": self.x, "twice": self.x + self.x}


@unidev.register_container
@dataclasses.dataclass
class Base:
    a: Any

    def __post_init__(self) -> None:
        self.cached = self.a + self.a


@dataclasses.dataclass
class Derived(Base):
    b: Any


class Plain(Derived):
    __slots__ = ("__hidden",)

    def hide(self, x: Any) -> Plain:
        self.__hidden = x
        return self

    @property
    def hidden(self) -> Any:
        return self.__hidden


def copied(tree: Any) -> Any:
    made = unidev.copy_to(tree, "cpu")
    assert type(made) is type(tree)
    return made


def assert_new(old: Any, new: Any) -> None:
    assert unidev.to_numpy(new).tolist() == unidev.to_numpy(old).tolist()
    assert not unidev.shares_memory(old, new)


def test_paths_of_attributes_and_items(two_gpus: None) -> None:
    tree = Fields(unidev.ones(2))
    tree.data["twice"] = unidev.ones(2, device="gpu:1")
    with pytest.raises(unidev.DeviceMismatchError) as caught:
        unidev.check_same_device(tree=tree, out=Output(y=unidev.ones(2)))
    assert set(caught.value.devices) == {
        "tree.x", "tree.data['x']", "tree.data['twice']", "out.y", "out['y']",
    }  # fmt: skip


def test_a_dataclass_that_is_a_list_or_keeps_items_elsewhere_moves_those_too() -> None:
    x = unidev.ones(2)
    rows = copied(Rows("n", x, 3))
    assert_new(x, rows[0])
    assert (rows[1], rows.name, len(rows)) == (3, "n", 2)
    tree = Fields(x)
    fields = copied(tree)
    assert fields.x is fields["x"]
    assert_new(x, fields.x)
    assert_new(tree["twice"], fields["twice"])


def test_a_dataclass_with_items_that_cannot_be_replaced_is_refused() -> None:
    @dataclasses.dataclass
    class Frame(tuple):  # type: ignore[type-arg]
        x: Any

    with pytest.raises(unidev.UnsupportedContainerError, match=r"Frame.*pass flatten"):
        unidev.register_container(Frame)


def test_a_subclass_is_walked_by_its_own_fields_and_by_what_else_it_holds() -> None:
    tree = Derived(unidev.ones(2), unidev.zeros(2))
    moved = copied([tree, tree])
    for made in moved:
        assert_new(tree.a, made.a)
        assert_new(tree.b, made.b)
        assert_new(tree.cached, made.cached)
    plain = Plain(tree.a, 5).hide(tree.b)
    moved = copied(plain)
    assert moved.b == 5
    assert_new(plain.hidden, moved.hidden)


def test_what_was_registered_for_its_base_can_be_registered_by_itself() -> None:
    @dataclasses.dataclass
    class Own(Base):
        b: Any

    copied(Own(unidev.ones(2), 1))
    unidev.register_container(Own, lambda own: ((own.a,), own.b), lambda b, a: Own(a[0], (b, b)))
    assert copied(Own(unidev.ones(2), 1)).b == (1, 1)


def test_neither_init_nor_copy_is_called() -> None:
    @unidev.register_container
    @dataclasses.dataclass(frozen=True)
    class Single:
        x: Any

        def __copy__(self) -> Single:
            return self

    tree = Single(unidev.ones(2))
    assert_new(tree.x, copied(tree).x)


def test_what_a_builtin_base_holds_is_kept() -> None:
    @unidev.register_container
    @dataclasses.dataclass
    class Failed(Exception):
        x: Any

    tree = Failed(unidev.ones(2))
    tree.args = ("why",)
    moved = copied(tree)
    assert moved.args == ("why",)
    assert_new(tree.x, moved.x)
