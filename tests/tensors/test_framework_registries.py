"""Containers that only a framework's own registry knows: ``Backend.opened``."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import unidev
from unidev.backends import loading

if TYPE_CHECKING:
    from collections.abc import Callable


class Seen:
    """Shows what it holds, and more, which its registered functions leave out."""

    def __init__(self, x: Any, note: Any = None) -> None:
        self.x, self.note = x, note


class Bound(functools.partial):  # type: ignore[type-arg]
    """A partial function: unidev sees none of its arguments."""


@pytest.fixture
def registry(two_gpus: None, monkeypatch: pytest.MonkeyPatch) -> dict[type, Callable[[Any], Any]]:
    """That of a framework, empty; NumPy's backend has it for this test."""
    known: dict[type, Callable[[Any], Any]] = {}

    def opened(x: object) -> Any:
        return known[type(x)](x) if type(x) in known else None

    monkeypatch.setitem(loading.openers, "numpy", opened)
    known[Seen] = lambda seen: ({".x": seen.x}, lambda new: Seen(*new, note="made"))
    known[Bound] = lambda bound: (
        {f".args[{number}]": x for number, x in enumerate(bound.args)},
        lambda new: Bound(bound.func, *new),
    )
    return known


@pytest.mark.parametrize("cls", [Seen, functools.partial(Bound, print)], ids=["seen", "bound"])
def test_one_is_moved_wherever_it_is(cls: Any, registry: Any, two_gpus: None) -> None:
    x = unidev.ones(2)
    for tree, at in ((cls(x), lambda tree: tree), ({"a": [cls(x)], "x": x}, lambda t: t["a"][0])):
        for verb in (unidev.copy_to, unidev.as_in_device):
            moved = verb(tree, "gpu:1")
            assert type(at(moved)) is type(at(tree))
            assert unidev.device_of(at(moved)) is unidev.gpu(1)
            assert unidev.device_of(moved) is unidev.gpu(1)
            assert verb(moved, "gpu:1") is moved if verb is unidev.as_in_device else True
        assert unidev.device_of(tree) is unidev.cpu()


def test_its_steps_are_in_paths(registry: Any, two_gpus: None) -> None:
    tree = [Seen(unidev.ones(1)), Bound(print, unidev.ones(1, device="gpu:0"))]
    with pytest.raises(unidev.DeviceMismatchError) as caught:
        unidev.check_same_device(batch=tree)
    assert set(caught.value.devices) == {"batch[0].x", "batch[1].args[0]"}


def test_one_in_another_that_shows_nothing_is_found(registry: Any, two_gpus: None) -> None:
    inner = Bound(print, unidev.ones(1))
    moved = unidev.copy_to(Bound(print, Bound(print, inner)), "gpu:0")
    assert unidev.device_of(moved.args[0].args[0].args[0]) is unidev.gpu(0)


def test_one_in_an_object_that_is_not_registered_is_refused(registry: Any) -> None:
    tree = {"x": unidev.ones(1), "held": SimpleNamespace(f=Bound(print, unidev.ones(1)))}
    with pytest.raises(unidev.UnsupportedContainerError, match=r"holds a tensor, at \['held'\]\.f"):
        unidev.copy_to(tree, "cpu")


def test_without_a_tensor_it_passes_and_is_itself(registry: Any) -> None:
    inside = Seen(3)
    assert unidev.copy_to([unidev.ones(1), inside], "cpu")[1] is inside
    assert unidev.copy_to(inside, "cpu") is inside


def test_what_unidev_knows_comes_first(registry: Any) -> None:
    class Own(dict):  # type: ignore[type-arg]
        pass

    registry[Own] = lambda own: ({"[0]": own["x"]}, lambda new: Own(wrong=True))
    registry[dict] = registry[Own]
    assert set(unidev.copy_to(Own(x=unidev.ones(1)), "cpu")) == {"x"}
    assert set(unidev.copy_to({"x": unidev.ones(1)}, "cpu")) == {"x"}


def test_a_function_that_raises_is_named_with_its_class(registry: Any) -> None:
    def raises(x: object) -> Any:
        raise ZeroDivisionError("no parts")

    registry[Seen] = raises
    with pytest.raises(unidev.UnsupportedContainerError, match=r"Seen cannot be taken apart.*no p"):
        unidev.copy_to([Seen(unidev.ones(1))], "cpu")


def test_one_that_holds_itself_is_refused(registry: Any) -> None:
    seen = Seen(unidev.ones(1))
    seen.x = [seen, unidev.ones(1)]
    with pytest.raises(unidev.CircularContainerError, match="contains itself"):
        unidev.copy_to(seen, "cpu")
