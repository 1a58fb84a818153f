"""``device_put``, ``device_get``, ``map_tensors``, ``is_tensor``, and numbers as devices."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import unidev


class Batch(NamedTuple):
    x: Any
    names: list[str]


class OnItself:
    """A stranger's array on the host, by an attribute."""

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self.values = values
        self.__array_interface__ = values.__array_interface__


class OnItsClass:
    """A stranger's array on the host, by a property."""

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self.values = values

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.values.__array_interface__


class Unknown:
    def __init__(self, x: Any) -> None:
        self.x = x


@pytest.fixture(params=["cpu", "gpu:1"])
def target(request: pytest.FixtureRequest, two_gpus: None) -> unidev.Device:
    return unidev.as_device(request.param)


@pytest.mark.parametrize("cls", [OnItself, OnItsClass])
def test_an_array_interface_is_enough_also_at_the_root(cls, target) -> None:
    values = np.arange(3.0)
    for put in (
        unidev.device_put(cls(values), target),
        unidev.device_put([cls(values)], target)[0],
    ):
        assert unidev.device_of(put) is target
        assert not unidev.shares_memory(put, values)
        assert unidev.to_numpy(put).tolist() == [0, 1, 2]
    (got,) = unidev.device_get([cls(values)])
    got[:] = 7
    assert values.tolist() == [0, 1, 2]


def test_what_would_be_left_behind_or_changed_is_an_error(two_gpus) -> None:
    x = unidev.ones(2, device="gpu:1")
    with pytest.raises(
        unidev.ContainerError, match=r"Unknown at \[1\] holds a tensor, at \[1\]\.x"
    ):
        unidev.device_put([x, Unknown(np.ones(3))], "gpu:1")
    with pytest.raises(unidev.ContainerError, match="Unknown"):
        unidev.device_get([Unknown(np.ones(3))])
    with pytest.raises(unidev.UnsupportedDtypeError, match="no such dtype"):
        unidev.device_put([np.zeros(1, [("a", "f4")])], "gpu:1")
    with pytest.raises(unidev.InvalidDataError, match="masked"):
        unidev.device_put([np.ma.array([1.0], mask=[True])], "gpu:1")
    for verb in (unidev.device_get, lambda tree: unidev.device_put(tree, "cpu")):
        with pytest.raises(unidev.NotATensorError, match="int"):
            verb(3)
    with pytest.raises(unidev.DeviceNotFoundError, match="gpu:9"):
        unidev.device_put([1, 2], "gpu:9")


def test_traces_see_them_as_explicit(two_gpus) -> None:
    with unidev.transfer_guard("forbid"), unidev.trace_transfers() as trace:
        put = unidev.device_put([np.ones(3, np.float32)], "gpu:0")
        unidev.device_get(put)
    assert [(each.operation, each.nbytes) for each in trace.transfers] == [
        ("device_put", 12), ("device_get", 12),
    ]  # fmt: skip


def test_a_function_sees_each_tensor_once_and_identity_is_kept() -> None:
    x, seen = unidev.ones(2), []
    tree = {"x": x, "again": [x], "name": "a"}
    assert unidev.map_tensors(lambda t: seen.append(t) or t, tree) is tree
    assert len(seen) == 1
    assert unidev.map_tensors(lambda t: t.shape, tree) == {"x": (2,), "again": [(2,)], "name": "a"}
    with pytest.raises(unidev.InvalidDataError, match="needs a function, not 3"):
        unidev.map_tensors(3, tree)  # type: ignore[arg-type]


def test_a_tensor_is_one_of_a_framework() -> None:
    assert unidev.is_tensor(np.ones(3))
    assert not any(map(unidev.is_tensor, (1, [1.0], None, np.float32(1), OnItself(np.ones(2)))))


def test_a_number_is_the_gpu_of_that_index(two_gpus) -> None:
    assert unidev.as_device(1) is unidev.as_device(np.int64(1)) is unidev.gpu(1)
    assert unidev.device_of(unidev.zeros(2, device=1)) is unidev.gpu(1)
    assert unidev.device_of(unidev.copy_to(unidev.zeros(2), np.uint8(0))) is unidev.gpu(0)
    assert unidev.device_of(unidev.as_in_device([unidev.zeros(2)], 1)) is unidev.gpu(1)
    for wrong in (True, False, -1, np.True_, 1.0):
        with pytest.raises(unidev.DeviceSpecError):
            unidev.as_device(wrong)  # type: ignore[arg-type]
    with pytest.raises(unidev.DeviceNotFoundError, match="gpu:2"):
        unidev.as_device(2)
