"""A thousand inputs that nobody should give: each gets an error of ours, and changes nothing."""

from __future__ import annotations

import array as stdlib_array
import collections
import dataclasses
import os
import pickle
import types

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import unidev
from unidev.backends import selection
from unidev.backends.scopes import stack


class Hostile:
    """Raises whatever is asked of it, but for its type."""

    def _raise(self, *_: object) -> None:
        raise ZeroDivisionError("hostile")

    __repr__ = __str__ = __index__ = __int__ = __float__ = __bool__ = _raise  # type: ignore[assignment]
    __len__ = __iter__ = __getitem__ = __eq__ = __hash__ = __array__ = _raise  # type: ignore[assignment]

    def __getattr__(self, name: str) -> object:
        raise ZeroDivisionError(name)


class NamelessModule:
    __module__ = None  # type: ignore[assignment]


class StrangeList(list):  # type: ignore[type-arg]
    pass


class StrangeDict(dict):  # type: ignore[type-arg]
    pass


@dataclasses.dataclass
class Unregistered:
    x: object


class Point(collections.namedtuple("Point", "x y")):  # a subclass: optree does not know it
    pass


def masked(values: object) -> object:
    x = np.ma.array(values, mask=[False, True])
    _ = x.fill_value  # made when first asked for, as by repr
    return x


def circular() -> list[object]:
    items: list[object] = [np.zeros(2)]
    items.append({"again": items})
    return items


CULPRITS = [
    None, True, False, 0, -1, 1, 2**31, 2**63, 10**30, 10**5000, 1.5, float("nan"),
    float("inf"), 1j,
    "", "cpu", "gpu", "gpu:0", "cpu:-1", "gpu:\n0", "cuda:0", "numpy", "torch", "\udc80", "é",
    "a" * 5000,
    "float32", "O", b"cpu", bytearray(b"x"), memoryview(b"xyz"), range(3), ..., NotImplemented,
    object(), type, int, unidev, types, len, lambda: 1, Hostile(), NamelessModule(), NamelessModule,
    Exception("x"), set(), {1}, frozenset({"a"}), iter([1]), slice(1), collections.UserDict(a=1),
    collections.deque([1]), collections.OrderedDict(a=1), collections.defaultdict(list),
    types.MappingProxyType({}), {}.keys(), StrangeList([1]), StrangeDict(a=1), Unregistered(1),
    Point(1, 2), stdlib_array.array("f", [1.0]), os.stat_result(range(10)), circular(), [], (), {},
    [[]], [1, [2]], [1, "a"], [None], {"a": 1}, {1: 2, "a": 3}, [Hostile()], {"h": Hostile()},
    [Unregistered(np.zeros(2))], {"s": {1}}, np.float32(1), np.int64(-3), np.bool_(True),
    np.str_("a"),
    np.datetime64("2026-11-21"), np.dtype("f4"), np.dtype("O"), np.dtype("i4,f4"), np.integer,
    np.float64, np.zeros(3), np.zeros(()), np.zeros((0, 3)), np.zeros(3, "O"), np.array(["a"]),
    np.zeros(2, "M8[s]"), np.zeros(2, "i4,f4"), np.zeros(2, "V3"), np.ma.masked, masked([1.5, 2]),
    masked([{}, 2]), np.zeros(3).view(np.recarray), np.zeros((2, 2)).view(np.matrix),
    np.broadcast_to(np.zeros(1), (4,)), np.arange(6)[::-2], np.zeros(3, ">f8"), np.longdouble(1),
    unidev.Device("numpy", "gpu", 77), unidev.Device("torch", "cpu", 0), unidev.Device,
    unidev.UnidevError, unidev.Backend, unidev.hookimpl,
]  # fmt: skip

# By position: hypothesis would ask them for their repr.
known = st.integers(0, len(CULPRITS) - 1).map(lambda position: CULPRITS[position])
culprits = st.one_of(
    known,
    st.text(max_size=8),
    st.integers(),
    st.floats(),
    st.recursive(
        known,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.lists(inner, max_size=3).map(tuple),
            st.dictionaries(st.text(max_size=3), inner, max_size=3),
        ),
        max_leaves=6,
    ),
)


def enter(name: object) -> None:
    with unidev.use_backend(name):  # type: ignore[arg-type]
        pass


def enter_device(spec: object) -> None:
    with unidev.as_device(spec):
        pass


def register(cls: object, flatten: object) -> None:
    if isinstance(cls, type) and (flatten is None or callable(flatten)):
        return  # nothing wrong with that, and it would last for the process
    unidev.register_container(cls, flatten, None)  # type: ignore[arg-type]


def is_moderate(size: object) -> bool:
    return not isinstance(size, (int, np.integer)) or abs(int(size)) < 100 or int(size) > 2**58


def sized(make):
    """``make``, but for shapes that would only take long, or all the memory of the machine."""

    def call(shape: object) -> None:
        if all(map(is_moderate, shape if isinstance(shape, (tuple, list)) else (shape,))):
            make(shape)

    return call


OF_ONE = {
    "gpu": unidev.gpu,
    "try_gpu": unidev.try_gpu,
    "as_device": unidev.as_device,
    "synchronize": unidev.synchronize,
    "memory": unidev.memory,
    "with device": enter_device,
    "use_backend": enter,
    "simulate": unidev.simulate,
    "array": unidev.array,
    "zeros": sized(unidev.zeros),
    "empty": sized(unidev.empty),
    "rand": sized(unidev.rand),
    "full": sized(lambda shape: unidev.full(shape, 1)),
    "zeros, dtype": lambda a: unidev.zeros(2, dtype=a),
    "ones, device": lambda a: unidev.ones(2, device=a),
    "randn, dtype": lambda a: unidev.randn(2, dtype=a),
    "arange, step": lambda a: unidev.arange(0, 0, a),
    "arange, stop": lambda a: unidev.arange(a, a, 1),
    "zeros_like": unidev.zeros_like,
    "ones_like": unidev.ones_like,
    "seed": unidev.seed,
    "to_numpy": unidev.to_numpy,
    "copy_to": lambda a: unidev.copy_to(a, "cpu"),
    "as_in_device": lambda a: unidev.as_in_device(a, unidev.cpu()),
    "device_of": unidev.device_of,
    "same_device": unidev.same_device,
}
OF_TWO = {
    "Device of numpy": lambda a, b: unidev.Device("numpy", a, b),
    "Device of a cpu": lambda a, b: unidev.Device(a, "cpu", b),
    "array, dtype": lambda a, b: unidev.array(a, dtype=b),
    "array, device": lambda a, b: unidev.array(a, device=b),
    "full, dtype": lambda a, b: unidev.full(2, a, dtype=b),
    "empty_like, device": lambda a, b: unidev.empty_like(a, device=b),
    "copy_to, device": unidev.copy_to,
    "copy_to of a batch": lambda a, b: unidev.copy_to([np.zeros(2), a], b),
    "as_in_device, device": unidev.as_in_device,
    "check_same_device": lambda a, b: unidev.check_same_device(a, b=b),
    "shares_memory": unidev.shares_memory,
    "register_container": register,
}


def snapshot(value: object) -> bytes | None:
    """What can be compared afterwards; None of what has no value to compare, such as a function."""
    try:
        return pickle.dumps(value)
    except Exception:  # noqa: BLE001  whatever it raises
        return None


def state() -> object:
    variables = {name: value for name, value in os.environ.items() if name.startswith("UNIDEV_")}
    return list(stack.scopes), selection._chosen, variables, np.geterr()


def check(call, *given: object) -> None:
    unidev.active_backend()
    before, inputs = state(), [snapshot(each) for each in given]
    try:
        call(*given)
    except unidev.UnidevError as error:
        message = str(error)
    else:
        message = "no error: it was good input"
    assert 20 < len(message) < 1000
    assert state() == before
    assert [snapshot(each) for each in given] == inputs


many = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.mark.parametrize("name", OF_ONE)
@many
@given(a=culprits)
def test_the_only_errors_are_unidevs_and_nothing_is_changed(name: str, a: object) -> None:
    check(OF_ONE[name], a)


@pytest.mark.parametrize("name", OF_TWO)
@many
@given(a=culprits, b=culprits)
def test_nor_are_there_others_where_two_things_are_given(name: str, a: object, b: object) -> None:
    check(OF_TWO[name], a, b)


@pytest.mark.parametrize("name", OF_ONE)
def test_each_of_the_known_culprits_by_itself(name: str) -> None:
    for culprit in CULPRITS:
        check(OF_ONE[name], culprit)
