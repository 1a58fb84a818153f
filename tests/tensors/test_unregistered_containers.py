"""Containers that need no registration: by what they are, or by a plugin."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

import pytest

import unidev


@dataclasses.dataclass
class Plain:
    x: Any
    n: Any = 3

    def __post_init__(self) -> None:
        assert self.n != "made twice"


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    x: Any


class Attrs:
    """As attrs makes them: slots, and the fields on the class."""

    __slots__ = ("x",)
    __attrs_attrs__ = ()

    def __init__(self, x: Any) -> None:
        self.x = x


class Pydantic:
    """As pydantic's ``BaseModel``: what is set is checked, and private values lie in a slot."""

    __slots__ = "__dict__", "__pydantic_private__"
    __pydantic_fields__ = ()

    def __init__(self, x: Any) -> None:
        object.__setattr__(self, "__dict__", {"x": x})
        object.__setattr__(self, "__pydantic_private__", {"_hidden": x})

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("checked")


class Config(dict):  # type: ignore[type-arg]
    name = "none"

    def __init__(self, x: Any) -> None:
        super().__init__(x=x)
        self.name = "config"


class Default(collections.defaultdict):  # type: ignore[type-arg]
    def __init__(self, x: Any) -> None:
        super().__init__(list, x=x)


class Ordered(collections.OrderedDict):  # type: ignore[type-arg]
    def __init__(self, x: Any) -> None:
        super().__init__(b=1, x=x)


class Data(collections.UserDict):  # type: ignore[type-arg]
    def __init__(self, x: Any) -> None:
        super().__init__({"x": x})


class Rows(list):  # type: ignore[type-arg]
    def __init__(self, x: Any) -> None:
        super().__init__([x])
        self.name = "rows"


class Frame(tuple):
    __slots__ = ()

    def __new__(cls, x: Any) -> Frame:
        return tuple.__new__(cls, (x, "frame"))


class Mapped(collections.abc.Mapping[str, Any]):
    def __init__(self, x: Any) -> None:
        self._kept = {"x": x}

    def __getitem__(self, key: str) -> Any:
        return self._kept[key]

    def __iter__(self) -> Any:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)


class Base:
    """A class without slots gives its objects a dict, of which they have one all the same."""


class Mixin:
    """As above."""


@dataclasses.dataclass
class Joined(Base, Mixin):
    x: Any


KINDS = [
    Plain, Frozen, Joined, Attrs, Pydantic, Config, Default, Ordered, Data, Rows, Frame, Mapped,
]  # fmt: skip


@pytest.mark.parametrize("cls", KINDS, ids=lambda cls: cls.__name__)
def test_without_a_tensor_it_passes_and_is_itself(cls: Any) -> None:
    inside = cls(5)
    moved = unidev.copy_to([unidev.ones(1), inside], "cpu")
    assert moved[1] is inside


def test_what_else_it_holds_stays() -> None:
    x = unidev.ones(1)
    plain = Plain(x)
    plain.n = "made twice"
    assert unidev.copy_to(plain, "cpu").n == "made twice"
    assert unidev.copy_to(Config(x), "cpu").name == "config"
    assert unidev.copy_to(Default(x), "cpu")["new"] == []
    ordered = unidev.copy_to(Ordered(x), "cpu")
    ordered.move_to_end("b")  # it keeps an order of its own
    assert list(ordered) == ["x", "b"]
    assert unidev.copy_to(Rows(x), "cpu").name == "rows"
    assert unidev.copy_to(Frame(x), "cpu")[1] == "frame"
    made = unidev.copy_to(Pydantic(x), "cpu")
    assert made.__pydantic_private__["_hidden"] is made.x is not x


def test_paths_lead_through_them(two_gpus: None) -> None:
    tree = Plain(Data(unidev.ones(1)), Attrs(unidev.ones(1, device="gpu:0")))
    with pytest.raises(unidev.DeviceMismatchError) as caught:
        unidev.check_same_device(batch=tree)
    assert set(caught.value.devices) == {"batch.x.data['x']", "batch.n.x"}


def test_what_is_there_stays_itself_beside_what_moves(two_gpus: None) -> None:
    there = Plain(unidev.ones(1, device="gpu:0"))
    moved = unidev.as_in_device([there, unidev.ones(1)], "gpu:0")
    assert moved[0] is there


def test_one_that_holds_itself_is_refused_at_once() -> None:
    tree = Plain(unidev.ones(1))
    tree.n = [tree, {"again": tree}, Plain(tree)]
    with pytest.raises(unidev.CircularContainerError, match="contains itself"):
        unidev.copy_to({"t": tree}, "cpu")


@pytest.mark.parametrize("cls", [Plain, Frozen, Attrs, Config, Data, Rows, Frame, Mapped])
def test_what_is_there_takes_the_quick_look(cls: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from unidev.tensors import containers

    tree = [cls(unidev.ones(1)), {"deeper": cls([unidev.ones(1)])}]
    assert unidev.as_in_device(tree, unidev.cpu()) is tree
    monkeypatch.delattr(containers, "_flatten")
    assert unidev.as_in_device(tree, unidev.cpu()) is tree


def test_an_own_registration_comes_first() -> None:
    class Own(dict):  # type: ignore[type-arg]
        pass

    tree = Own(x=unidev.ones(1))
    assert unidev.copy_to([tree], "cpu")[0]["x"] is not tree["x"]
    unidev.register_container(
        Own, lambda own: ((own["x"],), None), lambda rest, children: Own(x=children[0], own=True)
    )
    assert unidev.copy_to([tree], "cpu")[0]["own"]


PLUGIN = """
    import unidev
    from unidev.backends.numpy_backend.backend import NumpyBackend
    from unidev.backends.numpy_backend import NumpySimulator

    class Box:
        def __init__(self, x):
            self.x = x

    def apart(crate):
        return [crate.held["x"]], "rest", [".held['x']"]

    def together(rest, children):
        assert rest == "rest"
        return type_of_crate()(children[0])

    def type_of_crate():
        import crates
        return crates.Crate

    class Good(NumpyBackend):
        tensor_types = ()
        containers = {Box: None, "crates.Crate": (apart, together)}

    @unidev.hookimpl
    def unidev_register_backend():
        return unidev.BackendSpec(
            name="good", contract_version=3, framework="json", install="", load=lambda: Good,
            simulator=NumpySimulator,
        )
"""


def test_a_plugin_names_containers_also_of_a_library_that_is_imported_later(
    add_plugin: Any, run_python: Any
) -> None:
    add_plugin("good", PLUGIN)
    library = "class Crate:\n    def __init__(self, x):\n        self.held = {'x': x}"
    add_plugin("crates", f"{library}\nclass Child(Crate):\n    pass")
    printed = run_python(
        """
        import sys, unidev, numpy
        sys.modules["good"] = __import__("good")
        box = sys.modules["good"].Box(numpy.ones(1))
        with unidev.use_backend("numpy"):
            gpu = unidev.gpu()
            try:
                unidev.copy_to(box, gpu)
            except unidev.UnsupportedContainerError:
                print("not known")
        unidev.set_backend("good")
        assert "crates" not in sys.modules
        moved = unidev.copy_to([box], gpu)[0]
        print(type(moved) is type(box), unidev.device_of(moved.x), unidev.device_of(box.x))
        import crates
        child = crates.Child(numpy.ones(1))
        moved = unidev.copy_to({"child": child}, gpu)["child"]
        print(type(moved) is crates.Crate, unidev.device_of(moved.held["x"]))
        try:
            unidev.check_same_device(child=child, box=moved, both=[child, box])
        except unidev.DeviceMismatchError as error:
            print(*error.devices)
        """,
        UNIDEV_PLUGINS="good",
        UNIDEV_BACKEND="numpy",
        UNIDEV_SIMULATE="1",
    )
    assert printed.splitlines() == [
        "not known",
        "True gpu:0 cpu:0",
        "True gpu:0",
        "child.held['x'] box.held['x'] both[0].held['x'] both[1].x",
    ]
