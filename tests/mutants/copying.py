"""Copies that are none, or not always.

What the frameworks' own calls do whose names promise a copy, or are taken for one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mutants.mutant import around, mutant, replace
from unidev.backends.numpy_backend.probe import NumpyProbe
from unidev.backends.numpy_backend.simulated_array import SimulatedArray

_LARGE_BYTES = 4096


@mutant(
    "copy.disjoint_on_the_same_device",
    "copy.writing_one_leaves_the_other",
    "as_in_device.differs_from_copy_to",
    around="copy_to",
)
def copy_returns_self(copy, self, x, device, non_blocking):
    """On the same device the tensor itself: ``x.to(device)`` of torch and Paddle, ``x.cpu()``."""
    return x if self.device_of(x) is device else copy(self, x, device, non_blocking)


@mutant("copy.disjoint_on_the_same_device", "copy.writing_one_leaves_the_other", around="copy_to")
def copy_is_a_view(copy, self, x, device, non_blocking):
    """A new object on the same memory: torch's ``copy.copy(x)``, MXNet's ``x[:]``, ``detach``."""
    return x.view() if self.device_of(x) is device else copy(self, x, device, non_blocking)


@mutant(
    "copy.disjoint_across_devices",
    "as_in_device.disjoint_copy_when_not_there",
    "copy.allocated_bytes_grow",
    "sequences.of_tensors",
    around="copy_to",
)
def copy_changes_only_the_label(copy, self, x, device, non_blocking):
    """Another device on the same buffer: TF's ``identity`` between logical devices."""
    if self.device_of(x) is device:
        return copy(self, x, device, non_blocking)
    return self._on(x.view(np.ndarray), device)


@mutant("copy.disjoint_on_the_same_device", "copy.sizes_and_alignments", around="copy_to")
def copy_only_if_large(copy, self, x, device, non_blocking):
    """Small tensors are shared, as if they were constants: TF's eager cache of small constants."""
    if x.nbytes < _LARGE_BYTES and self.device_of(x) is device:
        return x.view()
    return copy(self, x, device, non_blocking)


@mutant("copy.sizes_and_alignments", "copy.allocated_bytes_grow", around="copy_to")
def copy_only_if_small(copy, self, x, device, non_blocking):
    """Large tensors are shared to save the bytes: TF's ``tf.constant(x)`` of a tensor."""
    if x.nbytes > _LARGE_BYTES and self.device_of(x) is device:
        return x.view()
    return copy(self, x, device, non_blocking)


@mutant("create.from_numpy_without_aliasing", around="from_numpy")
def copy_only_if_unaligned(make, self, array, dtype, device):
    """64-byte-aligned arrays are shared: JAX's ``device_put(a, may_alias=False)`` on the CPU."""
    if array.ctypes.data % 64 == 0 and array.dtype == dtype:
        return self._on(array.view(), device)
    return make(self, array, dtype, device)


@mutant("copy.disjoint_on_the_same_device", "copy.allocated_bytes_grow")
def copy_is_lazy_until_write(backend):
    """Shares until one of the two is written, so that writing shows nothing: ``tf.Variable(x)``."""
    import weakref

    lazy: list[weakref.ref[Any]] = []

    @around(backend)
    def copy_to(copy, self, x, device, non_blocking):
        if device.kind == "cpu" or self.device_of(x) is not device:
            return copy(self, x, device, non_blocking)
        shared = x.view()
        lazy.append(weakref.ref(shared))
        return shared

    @around(SimulatedArray)
    def __setitem__(assign, self, key, value):
        for reference in lazy:
            shared = reference()
            if shared is not None and np.shares_memory(shared, self):
                # The one way to give an array other memory: as unpickling does.
                state: Any = (1, shared.shape, shared.dtype, False, shared.tobytes())
                np.ndarray.__setstate__(shared, state)
        assign(self, key, value)


@mutant("copy.writing_one_leaves_the_other")
def copy_is_done_when_first_read(backend):
    """The bytes are fetched too late: a ``non_blocking`` copy whose source may change meanwhile."""

    copy, read_now = backend.copy_to, NumpyProbe.read
    pending: list[tuple[Any, Any]] = []

    @replace(backend)
    def copy_to(self, x, device, non_blocking):
        made = copy(self, x, device, non_blocking)
        pending.append((made, x))
        return made

    @replace(NumpyProbe)
    def read(self, x):
        for made, source in pending:
            if made is x:
                made.view(np.ndarray)[...] = source.view(np.ndarray)
        pending[:] = [(made, source) for made, source in pending if made is not x]
        return read_now(self, x)


@mutant("copy.zero_size", around="copy_to")
def empty_copy_returns_self(copy, self, x, device, non_blocking):
    """Nothing to copy, so the tensor itself: what a test of addresses alone cannot see."""
    if x.size == 0 and self.device_of(x) is device:
        return x
    return copy(self, x, device, non_blocking)


@mutant("copy.source_intact", around="copy_to")
def copy_donates_its_source(copy, self, x, device, non_blocking):
    """The source's memory is given away: JAX's ``device_put(x, device, donate=True)``."""
    made = copy(self, x, device, non_blocking)
    if x.flags.writeable:
        x[...] = 0
    return made


@mutant("copy.copy_of_a_copy")
def copies_use_one_buffer_again(backend):
    """The next copy takes the memory of the last, which is in use: a loader's staging buffer."""

    buffers: dict[Any, Any] = {}

    @around(backend)
    def copy_to(copy, self, x, device, non_blocking):
        kind = device, x.shape, x.dtype
        if kind not in buffers:
            buffers[kind] = copy(self, x, device, non_blocking)
        buffer = buffers[kind]
        if self.device_of(x) is not device or not np.shares_memory(x, buffer):
            buffer.view(np.ndarray)[...] = x.view(np.ndarray)
            return buffer.view()
        return copy(self, x, device, non_blocking)


@mutant("copy.variables_and_parameters")
def variables_are_shared(backend):
    """Tensors are copied, variables not: TF's ``read_value``, torch's ``Parameter.data``."""

    class Variable(np.ndarray):
        """NumPy has no variables: this stands for one."""

    copy, specials_of_numpy = backend.copy_to, NumpyProbe.specials

    @replace(NumpyProbe)
    def specials(self, device):
        found = specials_of_numpy(self, device)
        return {**found, "variable": np.ones(3).view(Variable)} if device.kind == "cpu" else found

    @replace(backend)
    def copy_to(self, x, device, non_blocking):
        return x.view() if type(x) is Variable else copy(self, x, device, non_blocking)


@mutant(
    "copy.lands_on_the_device_asked_for", "many.all_pairs_copy", simulated_count=3,
    around="copy_to",
)  # fmt: skip
def copies_go_to_the_first_gpu(copy, self, x, device, non_blocking):
    """The index is dropped on the way: ``x.to(device.type)``, ``x.cuda()``."""
    return copy(self, x, self.device("gpu", 0) if device.kind == "gpu" else device, non_blocking)
