"""``convert`` as far as NumPy alone shows it; the plugins' tests have frameworks beside it."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import unidev
from unidev.backends.loading import load_backend
from unidev.contract import Exported
from unidev.errors import UnsupportedOperation


@pytest.fixture
def interop(two_gpus: None) -> Any:
    return load_backend("numpy").interop


def test_a_tensor_of_the_backend_itself_stays_or_is_copied(two_gpus: None) -> None:
    x = np.arange(6.0)
    assert unidev.convert(x, "numpy") is x
    assert unidev.convert(x, "numpy", copy=False) is x
    tree = {"x": [x, "name"], "n": 3}
    assert unidev.convert(tree, "numpy") is tree
    y = unidev.convert(x, "numpy", copy=True)
    assert not np.shares_memory(x, y)
    moved = unidev.convert([x, x], "numpy", device="gpu:1")
    assert moved[0] is moved[1]
    assert str(unidev.device_of(moved)) == "gpu:1"
    with pytest.raises(UnsupportedOperation, match=r"on cpu:0 of numpy, not on gpu:1"):
        unidev.convert(x, "numpy", device="gpu:1", copy=False)


@pytest.mark.parametrize("copy", ["yes", 1, np.True_])
def test_copy_is_true_false_or_none(copy: Any) -> None:
    with pytest.raises(unidev.InvalidDataError, match="copy must be True, False or None"):
        unidev.convert(np.ones(3), "numpy", copy=copy)


def test_an_error_in_a_container_says_where(two_gpus: None) -> None:
    x = np.ones(3)
    tree = {"n": 1, "batch": [x, unidev.ones(2, device="gpu:1")]}
    with pytest.raises(UnsupportedOperation, match=r"^at \['batch'\]\[1\]: convert\(x, 'numpy'"):
        unidev.convert(tree, "numpy", device="cpu", copy=False)
    with pytest.raises(unidev.UnsupportedDtypeError, match=r"^at \['x'\]\[1\]: .* no such dtype"):
        unidev.device_put({"x": (x, np.zeros(1, [("a", "f4")]))}, "gpu:1")
    with pytest.raises(UnsupportedOperation, match=r"^convert\(x"):
        unidev.convert(x, "numpy", device="gpu:1", copy=False)


def test_another_backends_device_is_refused_by_its_name(two_gpus: None) -> None:
    foreign = unidev.Device("torch", "cpu", 0)
    with pytest.raises(unidev.BackendMismatchError, match="is not a device of numpy"):
        unidev.convert(np.ones(3), "numpy", device=foreign)


class Shared:
    """A stranger's read-only memory: DLPack 0 does not say that it may be written to."""

    def __init__(self, x: np.ndarray[Any, Any]) -> None:
        self.x = x

    def exported(self) -> Exported:
        return Exported(self.x.__dlpack__)


def test_numpy_gives_memory_also_where_it_is_read_only(interop: Any) -> None:
    x = np.arange(4.0)
    x.flags.writeable = False
    assert interop.is_immutable(x)
    given = interop.export(x)
    assert np.shares_memory(given, x)
    given.__dlpack__()
    assert not x.flags.writeable


def test_numpy_takes_memory_for_writing_or_read_only_and_keeps_it(interop: Any) -> None:
    x = np.arange(1000.0)
    expected = x.copy()
    writable = interop.adopt(Shared(x).exported(), False)
    read_only = interop.adopt(Shared(x).exported(), True)
    assert np.shares_memory(writable, x)
    writable[0] = expected[0] = 7
    assert read_only[0] == 7
    with pytest.raises(ValueError, match="read-only"):
        read_only[0] = 8
    with pytest.raises(ValueError, match="WRITEABLE"):
        read_only.flags.writeable = True
    del x
    gc.collect()
    others = [np.full(1000, -1.0) for _ in range(20)]
    assert (writable == expected).all()
    assert (read_only == expected).all()
    del others


def test_masked_elements_are_not_shared(interop: Any) -> None:
    with pytest.raises(unidev.InvalidDataError, match="masked"):
        interop.export(np.ma.masked_array([1.0, 2.0], mask=[True, False]))
