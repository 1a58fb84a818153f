"""MXNet's calls that move data between a device and the host, or to another device.

Those that compute are in ``computed_transfers``. A tracer names the outermost call into MXNet.
"""

from __future__ import annotations

import copy
import ctypes
import pickle
import tempfile
from contextlib import contextmanager
from functools import partial
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mxnet as mx  # type: ignore[import-untyped]
import numpy as np
from mxnet.base import _LIB  # type: ignore[import-untyped]

from unidev.contract import TransferExample
from unidev_mxnet.probe.computed_transfers import (
    MATRIX,
    computed,
    legacy,
    matrix,
    moves,
    nothing,
    one,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from unidev.contract import Backend, Device

    Read = Callable[[Any], object]

_NUMBER: dict[str, Sequence[Read]] = {
    "ndarray.asnumpy": [lambda x: x.asnumpy()],
    "ndarray.item": [lambda x: x.item(), lambda x: x.item(0)],
    "ndarray.tolist": [lambda x: x.tolist()],
    "ndarray.__bool__": [bool, lambda x: 1 if x else 0, lambda x: not x],
    "ndarray.__int__": [int],
    "ndarray.__float__": [float, complex, lambda x: np.asarray(x, "float32")],
    "ndarray.__repr__": [repr],
    "ndarray.__str__": [str],
    "ndarray.__format__": [lambda x: f"{x}", lambda x: f"{x:.3f}"],
    "pickle": [pickle.dumps],
    "copy.copy": [copy.copy],
    "copy.deepcopy": [copy.deepcopy, lambda x: copy.deepcopy({"x": [x]})],
    "mx.gluon.data.dataloader.reduce_np_ndarray": [ForkingPickler.dumps],
}
"""Reads of an array without dimensions, by the name that a trace has for them."""

_LEGACY: dict[str, Sequence[Read]] = {
    "NDArray.asnumpy": [lambda x: x.asnumpy()],
    "NDArray.asscalar": [lambda x: x.asscalar()],
    "NDArray.__bool__": [bool],
    "NDArray.__repr__": [str, repr, lambda x: f"{x}"],
    "pickle": [pickle.dumps],
    "copy.copy": [copy.copy],
    "copy.deepcopy": [copy.deepcopy],
    "mx.gluon.data.dataloader.reduce_ndarray": [ForkingPickler.dumps],
}
"""Reads of a legacy array of one element."""

_COPIES: dict[str, Sequence[Callable[[Any, Any], object]]] = {
    "ndarray.copyto": [
        lambda x, there: x.copyto(there),
        lambda x, there: x.copyto(mx.np.empty((2, 2), ctx=there)),
    ],
    "ndarray.as_in_ctx": [lambda x, there: x.as_in_ctx(there)],
    "ndarray.as_in_context": [lambda x, there: x.as_in_context(there)],
    "mx.np.array": [lambda x, there: mx.np.array(x, ctx=there)],
    "NDArray.copyto": [
        lambda x, there: x.as_nd_ndarray().copyto(there),
        lambda x, there: x.as_nd_ndarray().copyto(mx.nd.empty((2, 2), there)),
    ],
    "NDArray.as_in_context": [lambda x, there: x.as_nd_ndarray().as_in_context(there)],
    "mx.nd.array": [lambda x, there: mx.nd.array(x.as_nd_ndarray(), ctx=there)],
    "ndarray.__setitem__": [
        lambda x, there: mx.np.empty((2, 2), ctx=there).__setitem__(slice(None), x)
    ],
    "NDArray.__setitem__": [
        lambda x, there: mx.nd.empty((2, 2), there).__setitem__(slice(None), x.as_nd_ndarray())
    ],
}
"""Copies of a matrix."""


def transfers_of(backend: Backend, gpu: Device) -> Iterator[TransferExample]:
    """See ``Probe.transfers``."""
    cpu, count = backend.cpu, backend.device_count("gpu")
    others = [backend.device("gpu", (gpu.index + 1) % count)] if count > 1 else []
    # MXNet refuses a CPU's array beside a real GPU's.
    beside = [*others, cpu] if backend.simulated_count else others
    with _numpys_meaning():
        examples = [
            *_numbers(gpu, cpu), *_reads(gpu, cpu), *_of_the_host(gpu, cpu), *nothing(gpu),
            *(each for other in (cpu, *others) for each in _copies(gpu, other)),
            *(each for other in others for each in _sparse(gpu, other, cpu)),
            *computed(gpu, beside, cpu),
        ]  # fmt: skip
    for call, transfers in examples:
        yield TransferExample(_numpys_meaning()(call), transfers)


@contextmanager
def _numpys_meaning() -> Iterator[None]:
    """Arrays may have no dimensions, and Gluon computes with ``mx.np.ndarray``."""
    with mx.util.np_shape(True), mx.util.np_array(True):
        yield


def _numbers(gpu: Device, cpu: Device) -> Iterator[TransferExample]:
    for name, calls in _NUMBER.items():
        for call in calls:
            yield TransferExample(partial(call, one(gpu)), moves(name, gpu, cpu, (4, ())))
            yield TransferExample(partial(call, one(cpu)), ())
    for name, calls in _LEGACY.items():
        for call in calls:
            x, y = (mx.nd.array([3.0], ctx=each.native, dtype="float64") for each in (gpu, cpu))
            yield TransferExample(partial(call, x), moves(name, gpu, cpu, (8, (1,))))
            yield TransferExample(partial(call, y), ())


def _reads(gpu: Device, cpu: Device) -> Iterator[TransferExample]:
    index = mx.np.array(1, ctx=gpu.native, dtype="int32")
    for name, call, *sizes in (
        ("ndarray.asnumpy", lambda x: x[:1].asnumpy(), (8, (1, 2))),
        ("ndarray.asnumpy", lambda x: x.T[0].astype("float64").asnumpy(), (16, (2,))),
        ("ndarray.asnumpy", lambda x: x[:0].asnumpy(), (0, (0, 2))),
        ("ndarray.item", lambda x: x.item(3), MATRIX),  # of which MXNet reads all
        ("ndarray.__bool__", lambda x: 1 if x[0, 1] > 1 else 0, (1, ())),
        ("ndarray.__bool__", lambda x: max(x[0]), (1, ())),
        ("ndarray.__bool__", lambda x: bool((x > 3).any()), (1, ())),
        ("ndarray.__float__", lambda x: [float(each) for each in x[0]], (4, ()), (4, ())),
        ("ndarray.__getitem__", lambda x: x[index], (4, ())),
        ("numpy.allclose", lambda x: np.allclose(x, x), MATRIX, MATRIX),
        ("numpy.array_equal", lambda x: mx.np.array_equal(x, x), MATRIX, MATRIX),
        ("mx.nd.save", lambda x: _save(mx.nd.save, legacy(cpu), x.as_nd_ndarray()), MATRIX),
        ("mx.npx.save", lambda x: _save(mx.npx.save, x, x), MATRIX, MATRIX),
        ("a call into MXNet", _read_by_the_library, MATRIX),
    ):  # fmt: skip
        yield TransferExample(partial(call, matrix(gpu)), moves(name, gpu, cpu, *sizes))
    empty = mx.np.zeros((0, 3), ctx=gpu.native)
    for x, size in (one(gpu), (4, ())), (empty, (0, (0, 3))):
        call = partial(_in_legacy, partial(pickle.dumps, x))
        yield TransferExample(call, moves("pickle", gpu, cpu, size))
    for metric, *sizes in (
        (mx.metric.Accuracy(), (8, (2,)), (8, (2,))),
        (mx.metric.TopKAccuracy(2), MATRIX, (8, (2,))),
        (mx.metric.CrossEntropy(), (8, (2,)), MATRIX),
    ):
        labels = mx.nd.array([1, 0], ctx=gpu.native)
        update = partial(metric.update, [labels], [mx.nd.softmax(legacy(gpu))])
        name = f"{type(metric).__name__}.update"
        yield TransferExample(update, moves(name, gpu, cpu, *sizes))


def _save(function: Callable[..., object], *arrays: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        function(str(Path(folder) / "arrays"), list(arrays))


def _read_by_the_library(x: Any) -> None:
    values = np.empty(x.shape, "float32")
    address = values.ctypes.data_as(ctypes.c_void_p)
    _LIB.MXNDArraySyncCopyToCPU(x.handle, address, ctypes.c_size_t(x.size))


def _in_legacy(call: Callable[[], object]) -> None:
    """Call it as in a thread that has not switched to NumPy's meaning of shapes."""
    with mx.util.np_array(False), mx.util.np_shape(False):
        call()


def _of_the_host(gpu: Device, cpu: Device) -> Iterator[TransferExample]:
    """Values of Python and NumPy that are sent."""
    on, values = gpu.native, np.ones((2, 2), "float32")
    rows = (8, (2,))
    for name, call, *sizes in (
        ("mx.np.array", lambda _: mx.np.array(values, ctx=on), MATRIX),
        ("mx.np.array", lambda _: mx.np.array([1, 2], ctx=on, dtype="int64"), (16, (2,))),
        ("mx.np.array", lambda _: mx.np.array(1.5, ctx=on), (4, ())),
        ("mx.np.array", lambda _: _in_scope(on, lambda: mx.np.array([1.0])), (4, (1,))),
        ("mx.nd.array", lambda _: mx.nd.array(values, ctx=on), MATRIX),
        ("mx.nd.array", lambda _: mx.nd.array([1, 2], ctx=on), (8, (2,))),
        ("ndarray.__setitem__", lambda x: x.__setitem__(slice(None), values), MATRIX),
        ("ndarray.__setitem__", lambda x: x.__setitem__(0, [5, 6]), (8, (2,))),
        ("NDArray.__setitem__", lambda x: x.as_nd_ndarray().__setitem__(0, [5, 6]), (8, (2,))),
        # MXNet sends the rows, and the other dimension's zeros that it has made beside them.
        ("ndarray.__getitem__", lambda x: x[[0, 1]], rows, rows),
        ("ndarray.__getitem__", lambda x: x[np.array([0, 1])], rows, rows),
        ("ndarray.as_in_ctx", lambda _: matrix(cpu).as_in_ctx(on), MATRIX),
        ("ndarray.copyto", lambda x: matrix(cpu).copyto(x), MATRIX),
    ):
        yield TransferExample(partial(call, matrix(gpu)), moves(name, cpu, gpu, *sizes))


def _in_scope(on: Any, call: Callable[[], object]) -> None:
    with mx.Context(on):
        call()


def _copies(gpu: Device, other: Device) -> Iterator[TransferExample]:
    there = other.native
    for name, calls in _COPIES.items():
        for call in calls:
            yield TransferExample(
                partial(call, matrix(gpu), there), moves(name, gpu, other, MATRIX)
            )
            yield TransferExample(partial(call, matrix(other), there), ())
    x = mx.np.ones((4, 2), ctx=gpu.native, dtype="float64")
    as_in = partial(moves, "ndarray.as_in_ctx", gpu, other)
    yield TransferExample(lambda: x[1:3].as_in_ctx(there), as_in((32, (2, 2))))
    yield TransferExample(lambda: x.T[0].as_in_ctx(there), as_in((32, (4,))))
    yield TransferExample(lambda: x.astype("float16").as_in_ctx(there), as_in((16, (4, 2))))
    yield TransferExample(lambda: x[:0].as_in_ctx(there), as_in((0, (0, 2))))
    setitem = moves("ndarray.__setitem__", gpu, other, (8, (2,)))
    y, z = matrix(gpu), matrix(other)
    yield TransferExample(lambda: z.__setitem__(0, y[1]), setitem)


def _sparse(gpu: Device, other: Device, cpu: Device) -> Iterator[TransferExample]:
    """Sparse arrays move their values and their indices, which are of int64."""
    on, there = gpu.native, other.native
    dense = mx.nd.array([[0, 5, 0], [0, 0, 0], [0, 0, 0]], ctx=on)
    csr, rows = dense.tostype("csr"), dense.tostype("row_sparse")
    size, size_of_rows = (4 + 8 + 4 * 8, (3, 3)), (3 * 4 + 8, (3, 3))
    parts = (4, (1,)), (4 * 8, (4,)), (8, (1,))  # values, where the rows begin, columns
    for name, call, target, *sizes in (
        ("CSRNDArray.copyto", lambda: csr.copyto(there), other, size),
        ("CSRNDArray.copyto",
         lambda: csr.copyto(mx.nd.sparse.zeros("csr", (3, 3), ctx=there)), other, size),
        ("CSRNDArray.as_in_context", lambda: csr.as_in_context(there), other, size),
        ("RowSparseNDArray.copyto", lambda: rows.copyto(there), other, size_of_rows),
        ("CSRNDArray.asnumpy", csr.asnumpy, cpu, (36, (3, 3))),
        ("RowSparseNDArray.asnumpy", rows.asnumpy, cpu, (36, (3, 3))),
        ("mx.nd.sparse.csr_matrix", lambda: _csr_of(csr, there), other, *parts),
        ("mx.nd.sparse.row_sparse_array",
         lambda: mx.nd.sparse.row_sparse_array((rows.data, rows.indices), (3, 3), ctx=there),
         other, (12, (1, 3)), (8, (1,))),
        ("mx.nd.save", lambda: _in_legacy(lambda: _save(mx.nd.save, csr)), cpu, size),
    ):  # fmt: skip
        yield TransferExample(call, moves(name, gpu, target, *sizes))
    yield TransferExample(lambda: _csr_of(csr, on), ())


def _csr_of(csr: Any, context: Any) -> Any:
    parts = csr.data, csr.indices, csr.indptr
    return mx.nd.sparse.csr_matrix(parts, shape=csr.shape, ctx=context)
