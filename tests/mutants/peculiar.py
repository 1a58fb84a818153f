"""NumPy backends that are right for plain arrays, and wrong for masked, read-only, swapped ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from mutants.mutant import around, in_place_of, mutant, replace
from unidev.contract.backend import Extent
from unidev.numpy_backend import backend as module
from unidev.numpy_backend import simulated_array

_OTHER_KINDS = "copy.strings_ragged_sparse"
_MIB = 2**20
_RESULTS_ARE_NAMED = type(np.linalg.svd(np.eye(2))) is not tuple  # from NumPy 1.25 on


@mutant(_OTHER_KINDS)
def reads_of_read_only_arrays_are_kept(backend):
    """``to_numpy`` of an array that cannot change is made once, though what it gives is writable.

    JAX keeps the host's copy of an array in the same way, and returns it read-only.
    """
    import weakref

    read, known = backend.to_numpy, {}

    @replace(backend)
    def to_numpy(self, x):
        if x.flags.writeable:
            return read(self, x)
        if id(x) not in known:
            known[id(x)] = read(self, x)
            weakref.finalize(x, known.pop, id(x), None)
        return known[id(x)]


@mutant(_OTHER_KINDS, around="copy_to")
def byte_order_becomes_the_machines(copy, self, x, device, non_blocking):
    """Arrays from files, in the other byte order, are swapped on their way to a device."""
    if device is not self.device_of(x) and not x.dtype.isnative and x.dtype.names is None:
        x = x.astype(x.dtype.newbyteorder("="))
    return copy(self, x, device, non_blocking)


@mutant("create.on_each_device")
def large_zeros_are_not_cleared_again(backend):
    """A pool of zeros takes back blocks that were written to, as a cache of pages would."""
    import sys
    import weakref

    pool: dict[Any, list[Any]] = {}

    def give_back(key, block):
        if sys.getrefcount(block) <= 4:  # no view of it is left
            pool.setdefault(key, []).append(block)

    @around(backend)
    def zeros(zeros_of, self, shape, dtype, device):
        key = shape, np.dtype(dtype)
        if key[1].itemsize * int(np.prod(shape)) < _MIB:
            return zeros_of(self, shape, dtype, device)
        block = pool[key].pop() if pool.get(key) else np.zeros(*key)
        made = self._on(block.view(), device)
        weakref.finalize(made, give_back, key, block)
        return made


@mutant("errors.tensors_on_different_devices")
def numbers_mix_devices(_):
    """Arrays without dimensions are taken for numbers: torch's rule for those on the CPU."""

    collect = simulated_array._collect

    @in_place_of(collect)
    def collect_but_numbers(value, found):
        if not (isinstance(value, np.ndarray) and value.ndim == 0):
            collect(value, found)


@mutant("create.shares_memory", around="extents")
def owners_are_sought_a_few_steps_up(sound, self, x):
    """A view of a view of a view counts as memory of its own, from some depth on."""
    for _ in range(8):
        if isinstance(x.base, np.ndarray):
            x = x.base
    low, high = getattr(np.lib, "array_utils", np).byte_bounds(x)  # NumPy 2's, or 1's
    return [Extent(low, high - low if x.size else 0)]


@mutant(_OTHER_KINDS)
def fields_of_objects_are_shared(_):
    """Arrays of objects are refused, records that hold objects are copied: ``dtype == object``."""

    refuse = module._refuse_references

    @in_place_of(refuse)
    def refuse_arrays_of_objects(x):
        if x.dtype == object:
            refuse(x)


@mutant(_OTHER_KINDS, around="copy_to")
def masks_are_shared(copy, self, x, device, non_blocking):
    """A masked array's copy has its source's mask: ``numpy.ma.array(x, copy=True)`` keeps it."""
    if not isinstance(x, np.ma.MaskedArray):
        return copy(self, x, device, non_blocking)
    made = np.ma.MaskedArray(x.data.copy(), fill_value=x.fill_value)
    made._mask = x._mask
    return made


@mutant(_OTHER_KINDS, around="extents")
def masks_are_no_memory(of, self, x):
    """``shares_memory`` looks at a masked array's values alone: unidev's own, until 2026-11-23."""
    return of(self, x.data if isinstance(x, np.ma.MaskedArray) else x)


if _RESULTS_ARE_NAMED:

    @mutant("containers.named_and_registered_containers")
    def a_field_of_a_result_stays(backend: Any) -> None:
        """The result of ``svd`` is registered as a container, and an array of it is forgotten."""
        result = type(np.linalg.svd(np.eye(2)))
        backend.containers = {
            result: (lambda found: (found[:2], found[2]), lambda last, parts: result(*parts, last))
        }


@mutant("copy.non_blocking")
def large_copies_read_their_source_later(backend):
    """From 1 MiB on, a thread makes the copy, and the source is no longer what it was."""
    import threading
    import time

    copy, pending = backend.copy_to, []

    @replace(backend)
    def copy_to(self, x, device, non_blocking):
        if not non_blocking or x.nbytes < _MIB or device.kind == "cpu":
            return copy(self, x, device, non_blocking)
        made = self.empty(x.shape, x.dtype, device)

        def work():
            time.sleep(0.05)  # other work is queued before it
            made.view(np.ndarray)[...] = x.view(np.ndarray)

        pending.append(threading.Thread(target=work))
        pending[-1].start()
        return made

    @replace(backend)
    def synchronize(self, device):
        while pending:
            pending.pop().join()
