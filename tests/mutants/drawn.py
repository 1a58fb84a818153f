"""Backends that are wrong for one layout, number, size or spelling that no list held."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from mutants.mutant import around, mutant, replace_value
from unidev.backends.numpy_backend.backend import NumpyBackend
from unidev.backends.numpy_backend.probe import NumpyProbe
from unidev.contract.backend import Extent

if TYPE_CHECKING:
    from collections.abc import Callable

_FILLED = "create.on_each_device"


def _change_copies(
    backend: Any, dtype: str, when: Callable[[Any], bool], change: Callable[[Any], Any]
) -> None:
    """Let a copy be one of ``change(x)``, of that dtype and ``when`` that says so of the array."""

    @around(backend)
    def copy_to(copy: Any, self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        plain = x.view(np.ndarray)
        if x.dtype == dtype and when(plain):
            return self._on(change(plain), device)
        return copy(self, x, device, non_blocking)


def _owner(x: Any) -> Any:

    while isinstance(x.base, np.ndarray):
        x = x.base
    return x


@mutant("copy.disjoint_on_the_same_device", "copy.disjoint_across_devices")
def negative_strides_are_taken_for_positive(backend):
    """A reversed tensor is copied forwards: the absolute value of a stride."""
    _change_copies(
        backend, "int8", lambda x: x.strides and x.strides[0] < 0, lambda x: x[::-1].copy()
    )


@mutant("copy.disjoint_on_the_same_device", "copy.disjoint_across_devices")
def dense_tensors_are_copied_in_the_order_of_memory(backend):
    """Images with channels last are copied as a block, and the strides are forgotten."""

    def is_permuted(x):
        return x.ndim == 4 and x.strides[1] == x.itemsize < x.strides[3]

    def block(x):
        return x.transpose(0, 2, 3, 1).copy().reshape(x.shape)

    _change_copies(backend, "complex64", is_permuted, block)


@mutant("copy.disjoint_on_the_same_device", "copy.disjoint_across_devices")
def copies_of_views_hold_the_whole(backend):
    """The storage is copied, and the view made again: ``copy.deepcopy`` of PyTorch's tensors."""

    def of_the_whole(x):
        import numpy as np

        whole = _owner(x).copy()
        offset = x.ctypes.data - _owner(x).ctypes.data
        return np.ndarray(x.shape, x.dtype, whole.reshape(-1).view("uint8"), offset, x.strides)

    def is_small(x):
        return 0 < 2 * x.nbytes < _owner(x).nbytes and _owner(x).flags.c_contiguous

    for dtype in ("float32", "float64", "int64", "complex128"):
        _change_copies(backend, dtype, is_small, of_the_whole)


@mutant("copy.zero_d")
def scalars_of_one_dtype_gain_an_axis(backend):
    """A kernel that takes a pointer and a number of elements: one is not the same as none."""
    _change_copies(backend, "int16", lambda x: x.ndim == 0, lambda x: x.copy().reshape(1))


@mutant(_FILLED, around="unidev.tensors.creating:_whole_numbers")
def arange_counts_in_doubles(exact, counted):
    """Beyond 2**53 neighbours are the same: ``tf.range`` of numbers that became floats."""
    if counted and max(map(abs, (counted[0], counted[-1]))) < 2**62:
        return np.array([float(n) for n in counted]).astype(np.int64)
    return exact(counted)


@mutant("create.shares_memory")
def shares_memory_compares_starts(backend):
    """Two views share memory if they begin at one address: ``data_ptr() == data_ptr()``."""

    replace_value(
        backend,
        "extents",
        lambda self, x: [Extent(int(x.view(np.ndarray).ctypes.data), 1 if x.size else 0)],
    )

    exact = NumpyBackend.extents
    replace_value(NumpyProbe, "extents", lambda self, x: exact(self.backend, x))


@mutant("threads.concurrent_copies_are_right")
def threads_share_a_staging_buffer_for_one_dtype(backend):
    """Only 16-bit integers have to be widened on the way, in a buffer of the process."""
    staged: list[Any] = [None]

    @around(backend)
    def copy_to(copy, self, x, device, non_blocking):
        made = copy(self, x, device, non_blocking)
        if x.dtype != "int16":
            return made
        staged[0] = made
        until = time.monotonic() + 0.1
        while staged[0] is made and time.monotonic() < until:
            time.sleep(1e-4)  # so that another thread comes between
        found = staged[0]
        return found if found.shape == made.shape else made
