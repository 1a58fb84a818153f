from __future__ import annotations

import collections
import dataclasses
import re
import types
from typing import Any, NamedTuple

import numpy as np
import pytest

import unidev


class Pair(NamedTuple):
    left: Any
    right: Any


@unidev.register_container
@dataclasses.dataclass(frozen=True)
class Frozen:
    x: Any
    name: str
    later: Any = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        assert self.name != "made twice"


@unidev.register_container
@dataclasses.dataclass(slots=True)
class Slotted:
    x: Any


class Unknown:
    def __init__(self, x: Any) -> None:
        self.x = x

    def __repr__(self) -> str:
        return "Unknown()"


@dataclasses.dataclass(eq=False)
class Hashed:
    x: Any


class Bag:
    def __init__(self, *items: Any) -> None:
        self.items = items


unidev.register_container(
    Bag, lambda bag: (bag.items, "rest"), lambda rest, items: Bag(*items, rest)
)


def moved(tree: Any) -> Any:
    return unidev.copy_to(tree, "cpu")


def test_what_a_container_is_stays_what_it_is() -> None:
    x = unidev.arange(2)
    default = collections.defaultdict(list, b=x, a=[x])
    for tree in (
        {"b": x, "a": 1}, [x], (x,), Pair(x, "r"), collections.OrderedDict(b=x, a=2),
        collections.deque([x], maxlen=3), default, Frozen(x, "n"), Slotted(x),
    ):  # fmt: skip
        copied = moved(tree)
        assert type(copied) is type(tree)
        assert copied is not tree
    assert list(moved({"b": x, "a": 1})) == ["b", "a"]
    assert moved(collections.deque([x], maxlen=3)).maxlen == 3
    assert moved(default)["new"] == []
    assert moved(Pair(x, "r")).right == "r"


def test_a_frozen_dataclass_is_built_without_its_init_and_keeps_what_was_never_set() -> None:
    tree = Frozen(unidev.arange(2), "n")
    object.__setattr__(tree, "name", "made twice")
    copied = moved(tree)
    assert copied.name == "made twice"
    assert not hasattr(copied, "later")
    object.__setattr__(tree, "later", tree.x)
    copied = moved(tree)
    assert copied.later is copied.x
    assert copied.x is not tree.x


@pytest.mark.parametrize(
    ("tree", "where"),
    [
        (Unknown(unidev.zeros(1)), " holds a tensor, at .x, and"),
        (
            {"a": [Unknown(unidev.zeros(1))], "x": unidev.zeros(1)},
            " at ['a'][0] holds a tensor, at ['a'][0].x, and",
        ),
        ([{1, Hashed(unidev.zeros(1))}], ".x, and"),
        (collections.UserDict(k=Unknown(unidev.zeros(1))), ".data['k'].x, and"),
        (
            [Slotted({"k": Unknown(unidev.zeros(1))}), unidev.zeros(1)],
            " at [0].x['k'] holds a tensor, at [0].x['k'].x, and",
        ),
        ([types.MappingProxyType({})], " at [0] may hold tensors, but"),
    ],
)
def test_an_unknown_container_is_refused_with_its_path_and_the_remedy(
    tree: Any, where: str
) -> None:
    with pytest.raises(unidev.UnsupportedContainerError) as caught:
        moved(tree)
    assert f"{where} is not registered with unidev" in str(caught.value)
    assert "unidev.register_container(cls, flatten, unflatten)" in str(caught.value)


def test_a_subclass_of_a_registered_class_is_another_class_unless_it_is_a_dataclass() -> None:
    class Child(Bag):
        pass

    with pytest.raises(unidev.UnsupportedContainerError, match="Child"):
        moved(Child(unidev.zeros(1)))


@pytest.mark.parametrize(
    "arguments",
    [
        (5,),
        (Unknown(1),),
        (type("Plain", (), {}),),
        (Unknown, lambda value: ((), None)),
        (Unknown, None, lambda rest, children: None),
        (Unknown, 5, 6),
        (np.ndarray, lambda x: ((), x), lambda rest, children: rest),
        (dict, lambda x: ((), x), lambda rest, children: rest),
        (Frozen,),
        (Bag, lambda bag: (bag.items, None), lambda rest, items: Bag(*items)),
    ],
    ids=lambda arguments: re.sub(" at 0x[0-9a-f]+", "", repr(arguments)),
)
def test_what_cannot_be_registered_is_refused(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(unidev.UnsupportedContainerError):
        unidev.register_container(*arguments)
    with pytest.raises(unidev.UnsupportedContainerError):
        moved([Unknown(unidev.zeros(1)), unidev.zeros(1)])


@pytest.mark.parametrize("gives", [5, ((),), ((), None, (".x",)), ((), None, (), ()), None])
def test_a_flatten_function_that_gives_something_else_is_named(gives: Any) -> None:
    class Odd:
        pass

    unidev.register_container(Odd, lambda value: gives, lambda rest, children: Odd())
    with pytest.raises(
        unidev.UnsupportedContainerError, match=r"flatten function of .*Odd.* returned"
    ):
        moved([Odd()])


def test_functions_that_raise_are_translated_with_their_cause() -> None:
    class Closed:
        pass

    class Final:
        pass

    def fails(*_: Any) -> Any:
        raise OSError("closed")

    unidev.register_container(Closed, fails, fails)
    unidev.register_container(Final, lambda value: ((unidev.zeros(1),), None), fails)
    for tree, said in ((Closed(), "taken apart"), ([Final()], "cannot be rebuilt")):
        with pytest.raises(unidev.UnsupportedContainerError, match=rf"{said}.*closed") as caught:
            moved(tree)
        assert isinstance(caught.value.__cause__, OSError)


MADE_ELSEWHERE = """
    import contextlib, unidev

    class Made:
        def __init__(self, x, scoped):
            with unidev.device_of(x) if scoped else contextlib.nullcontext():
                self.x = unidev.array(x.tolist())
            self.scoped = scoped

    unidev.register_container(
        Made, lambda made: (([made.x],), made.scoped), lambda scoped, own: Made(own[0][0], scoped)
    )
    x = unidev.ones(2)
    print(unidev.device_of(unidev.copy_to([Made(x, True)], "gpu:1")))
    print(unidev.device_of(unidev.copy_to([Made(x, False)], "cpu")))
    try:
        unidev.copy_to([Made(x, False)], "gpu:1")
    except unidev.UnsupportedContainerError as error:
        print(error)
"""


def test_an_unflatten_function_that_makes_tensors_elsewhere_is_refused(run_python: Any) -> None:
    """As ``tf.random.Generator.from_state``, tensorflow#41143; the advice is followed."""
    scoped, there, error = run_python(MADE_ELSEWHERE, UNIDEV_SIMULATE="2").splitlines()
    assert (scoped, there) == ("gpu:1", "cpu:0")
    assert "made a tensor on cpu:0 of one on gpu:1: make it inside" in error


def test_containers_nested_too_deep_or_in_themselves_are_refused() -> None:
    deep: Any = unidev.zeros(1)
    for _ in range(5000):
        deep = [deep]
    circular: dict[str, Any] = {}
    circular["again"] = [circular]
    for tree, kind in ((deep, "list"), (circular, "dict")):
        for call in (moved, unidev.device_of, unidev.same_device):
            with pytest.raises(unidev.CircularContainerError, match=f"the {kind} contains itself"):
                call(tree)


@pytest.mark.parametrize(
    "lazy",
    [
        lambda x: (item for item in [x]), lambda x: zip([x], [x], strict=True),
        lambda x: map(str, [x]), lambda x: {"x": x}.values(), lambda x: enumerate([x]),
    ],
)  # fmt: skip
def test_what_gives_its_items_one_by_one_is_refused_and_not_used_up(lazy) -> None:
    x = unidev.ones(2)
    batch = {"kept": x, "lazy": lazy(x)}
    with pytest.raises(unidev.UnsupportedContainerError, match=r"\['lazy'\].*list\("):
        unidev.copy_to(batch, "cpu")
    assert len(list(batch["lazy"])) == 1
