"""NumPy's calls that read a simulated array, and what they read; and what reads nothing."""

from __future__ import annotations

import copy
import io
import pickle
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.contract import PlannedTransfer
from unidev.contract.probe import TransferExample

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from unidev.contract import Device

_READS: dict[str, tuple[int, tuple[int, ...], Sequence[Callable[[Any], object]]]] = {
    # Of a matrix of six float32: bytes and shape.
    "ndarray.item": (4, (), [lambda x: x.item(1), lambda x: x.item(1, 2)]),
    "in": (1, (), [lambda x: 2.0 in x]),
    "ndarray.tolist": (24, (2, 3), [lambda x: x.tolist()]),
    "ndarray.tobytes": (24, (2, 3), [lambda x: x.tobytes()]),
    "ndarray.__repr__": (24, (2, 3), [repr]),
    "ndarray.__str__": (24, (2, 3), [str]),
    "ndarray.__format__": (24, (2, 3), [lambda x: f"{x}"]),
    "ndarray.dumps": (24, (2, 3), [lambda x: x.dumps()]),
    "pickle": (24, (2, 3), [pickle.dumps]),
    "numpy.save": (24, (2, 3), [lambda x: np.save(io.BytesIO(), x)]),
    "numpy.savez": (24, (2, 3), [lambda x: np.savez(io.BytesIO(), x)]),
    "numpy.savetxt": (24, (2, 3), [lambda x: np.savetxt(io.StringIO(), x)]),
    "numpy.array_repr": (24, (2, 3), [np.array_repr]),
    "numpy.array_str": (24, (2, 3), [np.array_str]),
    "numpy.array2string": (24, (2, 3), [np.array2string]),
    "numpy.allclose": (1, (), [lambda x: np.allclose(x, x)]),
    "numpy.array_equal": (1, (), [lambda x: np.array_equal(x, x)]),
    "numpy.array_equiv": (1, (), [lambda x: np.array_equiv(x, x)]),
}
_OF_ONE: dict[str, Callable[[Any], object]] = {
    "ndarray.item": lambda x: x.item(),
    "ndarray.__bool__": bool,
    "ndarray.__int__": int,
    "ndarray.__float__": float,
    "ndarray.__complex__": complex,
    "ndarray.__format__": lambda x: f"{x:.2f}",
}
_NOTHING: Sequence[Callable[[Any], object]] = [
    lambda x: x + 1, lambda x: x @ x.T, lambda x: x.sum(), lambda x: x[1], lambda x: x.reshape(-1),
    lambda x: x.astype("float64"), lambda x: np.stack([x, x]), lambda x: x.copy(), copy.copy, len,
    list, lambda x: x.__setitem__(0, 5.0), lambda x: np.where(x > 2, x, 0), lambda x: x.shape,
]  # fmt: skip


def transfers_of(gpu: Device, make: Callable[[Any, Device], Any]) -> Iterator[TransferExample]:
    """See ``Probe.transfers``."""
    cpu = type(gpu)(gpu.backend, "cpu", 0)
    values = np.arange(6, dtype="float32").reshape(2, 3)
    for name, (nbytes, shape, calls) in _READS.items():
        for call in calls:
            moved = PlannedTransfer(name, gpu, cpu, nbytes, shape)
            yield TransferExample(partial(call, make(values, gpu)), (moved,))
            yield TransferExample(partial(call, make(values, cpu)), ())
    one = np.full((), 2.0, "float32")
    for name, call in _OF_ONE.items():
        moved = PlannedTransfer(name, gpu, cpu, 4, ())
        yield TransferExample(partial(call, make(one, gpu)), (moved,))
    for call in _NOTHING:
        yield TransferExample(partial(call, make(values, gpu)), ())
