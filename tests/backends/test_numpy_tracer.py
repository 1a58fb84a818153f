"""What NumPy's tracer sees: every way to read a simulated array, once, and nothing afterwards."""

import pickle
import sys

import numpy as np
import pytest

import unidev
from unidev.backends.numpy_backend.simulated_array import SimulatedArray
from unidev.backends.observer import thread

READS = {
    "item": (lambda x: x[0, 0].item(), "ndarray.item", 4, ()),
    "an item": (lambda x: x.item(3), "ndarray.item", 4, ()),
    "tolist": (lambda x: x.tolist(), "ndarray.tolist", 24, (2, 3)),
    "float": (lambda x: float(x[0, 0]), "ndarray.__float__", 4, ()),
    "int": (lambda x: int(x[0, 0]), "ndarray.__int__", 4, ()),
    "bool": (lambda x: bool((x == 1).all()), "ndarray.__bool__", 1, ()),
    "if": (lambda x: 1 if x[0, 0] else 2, "ndarray.__bool__", 4, ()),
    "index": (lambda x: [7, 8][x[0, 0].astype("int64")], "ndarray.__index__", 8, ()),
    "in": (lambda x: 1.0 in x, "in", 1, ()),
    "print": (str, "ndarray.__str__", 24, (2, 3)),
    "repr": (repr, "ndarray.__repr__", 24, (2, 3)),
    "format": (lambda x: f"{x[0, 0]:.2f}", "ndarray.__format__", 4, ()),
    "tobytes": (lambda x: x.tobytes(), "ndarray.tobytes", 24, (2, 3)),
    "pickle": (pickle.dumps, "pickle", 24, (2, 3)),
    "numpy.allclose": (lambda x: np.allclose(x, x), "numpy.allclose", 1, ()),
    "numpy.array2string": (np.array2string, "numpy.array2string", 24, (2, 3)),
}


@pytest.mark.parametrize("name", READS)
def test_reading_a_simulated_array_is_told_once(two_gpus, name):
    read, operation, nbytes, shape = READS[name]
    x = unidev.ones((2, 3), device="gpu:1")
    expected = read(np.ones((2, 3), "float32"))
    with unidev.trace_transfers() as trace:
        result = read(x)
    (seen,) = trace.transfers
    assert (str(seen.source), str(seen.target)) == ("gpu:1", "cpu:0")
    assert (seen.operation, seen.nbytes, seen.shape) == (operation, nbytes, shape)
    if name not in ("print", "repr", "pickle", "numpy.array2string"):
        assert result == expected


def test_the_class_is_as_it_was_afterwards_also_after_an_exception(two_gpus):
    before = dict(vars(SimulatedArray))
    with unidev.trace_transfers():
        assert dict(vars(SimulatedArray)) != before
    with pytest.raises(ZeroDivisionError), unidev.trace_transfers():
        raise ZeroDivisionError
    with unidev.trace_transfers(), unidev.transfer_guard("log"), unidev.trace_transfers():
        pass
    assert dict(vars(SimulatedArray)) == before
    assert thread.recorder is None
    assert not any("unidev" in type(each).__module__ for each in sys.meta_path)
