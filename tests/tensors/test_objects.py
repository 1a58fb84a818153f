"""Objects in containers: those that hold a tensor are refused by its path, others pass untouched.

The classes are in ``library_objects.py``; ``test_real_objects.py`` has the libraries' own.
"""

from __future__ import annotations

import abc
import datetime
import decimal
import fractions
import functools
import logging
import pathlib
import pickle
import random
import threading
import types
import uuid
from typing import Any
from unittest import mock

import numpy as np
import pytest
from library_objects import (
    Attrs,
    AttrsChild,
    Color,
    Config,
    Fake,
    Lazy,
    Level,
    ListOf,
    Movable,
    OwnDict,
    Slippery,
    Storage,
    of_meta,
)

import unidev
from unidev.tensors import containers, devices, hidden_tensors
from unidev.tensors.kinds import PLAIN

HOLDING = {
    "slots": (Attrs, "._Attrs__x"),
    "inherited slots": (AttrsChild, "._Attrs__x"),
    "a namespace": (lambda x: types.SimpleNamespace(x=x), ".x"),
    "an object in an object": (
        lambda x: types.SimpleNamespace(held=types.SimpleNamespace(held=x)),
        ".held.held",
    ),
    "one that says it is another": (lambda x: Fake(x=x), ".x"),
    "a lazy object": (Lazy, "._wrapped"),
    "one of a metaclass": (of_meta, ".x"),
    "a namedtuple in it": (lambda x: types.SimpleNamespace(p=(Config(1), Config(x))), ".p[1].x"),
    "a set in it": (lambda x: types.SimpleNamespace(p={Fake(x=x)}), ".p[0].x"),
    "a mock that was given one": (lambda x: mock.Mock(x=x), ".x"),
}


def circular() -> Any:
    one, other = types.SimpleNamespace(), types.SimpleNamespace()
    one.other, other.one, one.items = other, one, [{"self": one}]
    return one


def captured(x: Any) -> Any:
    return lambda: x


PASSING = {
    "numbers": lambda x: [1, 2.5, 1j, True, decimal.Decimal(1), fractions.Fraction(1, 2), 10**30],
    "text": lambda x: ["a", b"b", bytearray(b"c"), memoryview(b"d"), None, Ellipsis],
    "paths": lambda x: [pathlib.Path("a"), pathlib.PurePosixPath("a")],
    "dates": lambda x: [datetime.date(2026, 1, 1), datetime.timedelta(1), datetime.timezone.utc],
    "an enum": lambda x: [Color.RED, Level.LOW],
    "dtypes and devices": lambda x: [np.dtype("f4"), np.float32, unidev.cpu(), np.float32(1)],
    "an id": lambda x: [uuid.uuid4()],
    "an empty object": lambda x: [types.SimpleNamespace(), object(), Movable(), Config(1)],
    "a class of tensors": lambda x: [np.ndarray, type(x), Config],
    "a module": lambda x: [np, unidev, pytest],
    "a lambda that has captured one": lambda x: [captured(x), functools.partial(print, x), x.sum],
    "generators of random numbers": lambda x: [
        random.Random(1), np.random.default_rng(1), np.random.RandomState(1),
    ],
    "locks": lambda x: [threading.Lock(), threading.RLock(), threading.Condition()],
    "loggers": lambda x: [logging.getLogger(__name__), logging.getLogger()],
    "mocks": lambda x: [mock.Mock(), mock.MagicMock(spec=dict), mock.Mock(spec=np.ndarray)],
    "a thread": lambda x: [threading.current_thread()],
    "a cycle": lambda x: [circular()],
    "one whose __dict__ raises": lambda x: [OwnDict()],
    "an abstract class": lambda x: [abc.ABC()],
}  # fmt: skip


@pytest.mark.parametrize(("make", "path"), HOLDING.values(), ids=HOLDING)
def test_an_object_that_holds_a_tensor_is_refused_by_its_path(
    make: Any, path: str, two_gpus: None
) -> None:
    x = unidev.ones(2)
    for tree in ({"y": x, "g": make(x)}, {"g": make(x), "y": x}):
        for verb in (
            lambda tree: unidev.copy_to(tree, "gpu:0"),
            lambda tree: unidev.as_in_device(tree, "gpu:0"),
            lambda tree: unidev.as_in_device(tree, unidev.cpu()),
            unidev.device_of,
            unidev.same_device,
            lambda tree: unidev.check_same_device(tree=tree),
        ):
            with pytest.raises(unidev.UnsupportedContainerError) as caught:
                verb(tree)
            assert f" at ['g'] holds a tensor, at ['g']{path}, and" in str(caught.value)


@pytest.mark.parametrize("make", PASSING.values(), ids=PASSING)
def test_an_object_that_holds_none_passes_and_is_itself(make: Any, two_gpus: None) -> None:
    x = unidev.ones(2)
    inside = make(x)
    for moved in (
        unidev.copy_to([x, *inside], "gpu:0"),
        unidev.as_in_device([x, *inside], "gpu:0"),
    ):
        assert [type(y) for y in moved[1:]] == [type(y) for y in inside]
        assert all(new is old for new, old in zip(moved[1:], inside, strict=True))
    assert unidev.device_of([x, *inside]) is unidev.cpu()
    assert unidev.copy_to([inside], "cpu")[0][0] is inside[0]  # with no tensor beside it, too


@pytest.mark.parametrize("place", ["cpu:0", "gpu:1"])
def test_arrays_in_an_object_are_tensors_where_numpy_is_the_framework(
    two_gpus: None, place: str
) -> None:
    held = types.SimpleNamespace(a=unidev.ones(2, device=place))
    for tree in ([1, held], [unidev.ones(1), held], held):
        for verb in (unidev.copy_to, unidev.as_in_device):
            with pytest.raises(unidev.UnsupportedContainerError, match=r"\.a"):
                verb(tree, "gpu:0")


def test_arrays_in_an_object_are_data_where_another_framework_is_selected(
    two_gpus: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(containers, "is_numpy_selected", lambda: False)
    held = types.SimpleNamespace(a=np.ones(2))
    assert unidev.copy_to([1, held], unidev.cpu())[1] is held
    on_a_gpu = types.SimpleNamespace(a=unidev.ones(2, device="gpu:1"))  # no data of the host's
    with pytest.raises(unidev.UnsupportedContainerError, match=r"\.a"):
        unidev.copy_to([1, on_a_gpu], unidev.cpu())
    monkeypatch.setattr(devices, "is_numpy_selected", lambda: False)
    for verb in (unidev.copy_to, unidev.place):  # no real machine has GPUs for NumPy's arrays
        with pytest.raises(unidev.DeviceNotFoundError, match=r"NumPy has no GPU.*device_put"):
            verb({"a": np.ones(2)}, "gpu:1")


def test_looking_ends_at_a_depth_and_at_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    deep: Any = unidev.ones(1)
    for _ in range(8):
        deep = [deep]
    assert hidden_tensors.path_to_tensor(deep, counts_numpy=True) == "[0]" * 8
    assert hidden_tensors.path_to_tensor([deep], counts_numpy=True) is None
    many = types.SimpleNamespace(numbers=list(range(hidden_tensors._MOST)), x=unidev.ones(1))
    assert hidden_tensors.path_to_tensor(many, counts_numpy=True) == ".x"  # the nearest first
    many.x = [many.x]
    assert hidden_tensors.path_to_tensor(many, counts_numpy=True) is None
    many.numbers = [types.SimpleNamespace() for _ in range(hidden_tensors._MOST_HOLDERS - 4)]
    assert hidden_tensors.path_to_tensor(many, counts_numpy=True) == ".x[0]"
    many.more = [many.x]
    del many.x
    assert hidden_tensors.path_to_tensor(many, counts_numpy=True) == ".more[0][0]"
    many.numbers += [types.SimpleNamespace(), types.SimpleNamespace()]
    assert hidden_tensors.path_to_tensor(many, counts_numpy=True) is None


def test_what_never_holds_a_tensor_is_remembered_and_nothing_else() -> None:
    path = pathlib.Path("a")
    unidev.copy_to([unidev.ones(1), path, Color.RED, Config(1), circular(), ListOf()], "cpu")
    assert {type(path), Color} <= PLAIN
    assert PLAIN.isdisjoint({Config, types.SimpleNamespace, ListOf, list, dict})
    x = unidev.ones(1)
    assert unidev.copy_to([Config(x)], "cpu")[0].x is not x  # another of the same class


def test_a_path_and_other_plain_objects_take_the_quick_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batch = {"x": unidev.ones(1), "path": pathlib.Path("a"), "split": Color.RED}
    assert unidev.as_in_device(batch, unidev.cpu()) is batch
    monkeypatch.delattr(containers, "_flatten")
    assert unidev.as_in_device(batch, unidev.cpu()) is batch


def test_looking_runs_none_of_the_object_s_code_where_nothing_is_found() -> None:
    passing = [Lazy(1), Fake(a=1), of_meta(1), Storage(a=1), Slippery(k=1)]
    assert unidev.copy_to([unidev.ones(1), *passing], "cpu")[1] is passing[0]


def test_looking_does_not_change_the_object() -> None:
    failed = ValueError("x")
    before = pickle.dumps(failed)
    unidev.copy_to([unidev.ones(1), failed], "cpu")
    assert pickle.dumps(failed) == before
    failed.x = unidev.ones(1)  # type: ignore[attr-defined]
    with pytest.raises(unidev.UnsupportedContainerError, match=r"\.x, and"):
        unidev.copy_to([unidev.ones(1), failed], "cpu")


def test_a_class_can_be_collected() -> None:
    import gc
    import weakref

    cls = type("Short", (), {"__slots__": ("x",)})
    unidev.copy_to([unidev.ones(1), cls()], "cpu")
    gone = weakref.ref(cls)
    del cls
    gc.collect()
    assert gone() is None
