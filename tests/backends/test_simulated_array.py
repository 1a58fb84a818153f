from __future__ import annotations

import copy
import operator
import pickle

import numpy as np
import pytest

import unidev
from unidev.backends.numpy_backend.simulated_array import SimulatedArray


@pytest.fixture
def x(two_gpus: None) -> SimulatedArray:
    return unidev.array(np.arange(6.0).reshape(2, 3), device="gpu:0")  # type: ignore[no-any-return]


@pytest.fixture
def y(two_gpus: None) -> SimulatedArray:
    return unidev.array(np.arange(6.0).reshape(2, 3), device="gpu:1")  # type: ignore[no-any-return]


def test_device_says_what_the_array_api_s_attribute_is_for(x: SimulatedArray) -> None:
    assert [array.device for array in (x, x[0], x + 1, x.sum())] == ["gpu:0"] * 4
    assert unidev.as_in_device(x, x.device) is x
    assert unidev.ones(2, device=x.device).device == "gpu:0"
    elsewhere = [x.to_device("cpu"), x.sum().to_device("gpu:1"), x.to_device(x.device)]
    if hasattr(np, "astype"):  # NumPy 2
        elsewhere += [np.zeros_like(x, device="cpu"), np.astype(x, int, device="gpu:1")]
        elsewhere.append(np.linspace(x[0, 0], 2, 3, device=x.device))
    elsewhere.append(np.arange(3, like=x))
    expected = ["cpu:0", "gpu:1", "gpu:0"] * (len(elsewhere) // 3) + ["gpu:0"]
    assert [str(unidev.device_of(array)) for array in elsewhere] == expected


ALONE = {
    "a number": lambda x: 2 * x + 1,
    "a view": lambda x: x[0],
    "a slice": lambda x: x[:, ::2],
    "an element": lambda x: x[1, 1],
    "a mask": lambda x: x[x > 2],
    "transposed": lambda x: x.T,
    "reshaped": lambda x: x.reshape(3, 2),
    "a copy": lambda x: x.copy(),
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "pickled": lambda x: pickle.loads(pickle.dumps(x)),
    "another dtype": lambda x: x.astype("int8"),
    "a sum": lambda x: x.sum(),
    "numpy.sum": np.sum,
    "a mean by axis": lambda x: x.mean(axis=0),
    "the largest": lambda x: x.argmax(),
    "any": lambda x: (x > 1).any(),
    "a product": lambda x: x @ x.T,
    "dot": lambda x: x.dot(x.T),
    "concatenated": lambda x: np.concatenate([x, x]),
    "where": lambda x: np.where(x > 2, x, 0.0),
    "two results": lambda x: divmod(x, 2)[1],
    "a named result": lambda x: np.linalg.svd(x)[1],  # a named tuple from NumPy 1.25 on
    "clipped": lambda x: x.clip(0, 1),
    "out": lambda x: np.add(x, x, out=x),
    "one of two outs": lambda x: np.divmod(x, 2, out=(x, None))[1],
    "in place": lambda x: operator.iadd(x, 1),
    "zeros_like": np.zeros_like,
    "a row of an iteration": lambda x: next(iter(x)),
    "reduce": np.add.reduce,
    "nonzero": lambda x: x.nonzero()[0],
    "real": lambda x: x.real,
    "a list of both": lambda x: np.split(x, 2)[1],
}


@pytest.mark.parametrize("what", ALONE)
def test_what_is_computed_from_arrays_of_a_device_stays_there(x, what: str) -> None:
    plain = ALONE[what](np.array(x.view(np.ndarray)))
    result = ALONE[what](x)
    assert type(result) is SimulatedArray
    assert unidev.device_of(result) is unidev.gpu(0)
    np.testing.assert_array_equal(unidev.to_numpy(result), plain)


MIXED = {
    "+": operator.add,
    "@": lambda x, y: x @ y.T,
    "+=": operator.iadd,
    "numpy.add": np.add,
    "out": lambda x, y: np.add(x, 1, out=y),
    "where": lambda x, y: np.add(x, 1, where=y > 2),
    "concatenate": lambda x, y: np.concatenate([x, y]),
    "numpy.where": lambda x, y: np.where(x > 1, 0, y),
    "a method": lambda x, y: x.dot(y.T),
    "a method's option": lambda x, y: x.sum(axis=0, where=y > 1),
    "put": lambda x, y: x.put([0], y),
    "assigning": lambda x, y: operator.setitem(x, 0, y[0]),
    "filling": lambda x, y: x.fill(y[0]),
    "an index": lambda x, y: x[y > 1],
    "ufunc.at": lambda x, y: np.add.at(x, 0, y[0]),
    "copyto": np.copyto,
    "einsum": lambda x, y: np.einsum("ij,ij", x, y),
}


@pytest.mark.parametrize("what", MIXED)
@pytest.mark.parametrize("elsewhere", ["gpu:1", "cpu"])
def test_arrays_of_two_devices_refuse_each_other_and_nothing_changes(
    x, what: str, elsewhere: str
) -> None:
    y = unidev.array(x, device=elsewhere)
    before = unidev.to_numpy(x)
    with pytest.raises(unidev.DeviceMismatchError) as caught:
        MIXED[what](x, y)
    assert "gpu:0" in str(caught.value)
    assert str(unidev.as_device(elsewhere)) in str(caught.value)
    np.testing.assert_array_equal(unidev.to_numpy(x), before)
    np.testing.assert_array_equal(unidev.to_numpy(y), before)


def test_a_plain_array_does_not_take_in_a_simulated_one_by_an_operator(x) -> None:
    plain = np.zeros((2, 3))
    with pytest.raises(unidev.DeviceMismatchError):
        plain += x
    with pytest.raises(unidev.DeviceMismatchError):
        plain + x
    assert not plain.any()


def test_a_plain_array_that_is_only_viewed_so_is_on_the_cpu(two_gpus: None) -> None:
    viewed = np.zeros(3).view(SimulatedArray)
    assert unidev.device_of(viewed) is unidev.cpu()
    assert type(viewed + np.ones(3)) is np.ndarray
    assert unidev.device_of(SimulatedArray((2,))) is unidev.cpu()
    assert unidev.device_of(unidev.copy_to(viewed, "gpu:1")) is unidev.gpu(1)


def test_an_index_is_a_read(x) -> None:
    with unidev.trace_transfers() as trace:
        assert [7, 8][x[0, 1].astype("int64")] == 8
    assert [each.operation for each in trace.transfers] == ["ndarray.__index__"]
