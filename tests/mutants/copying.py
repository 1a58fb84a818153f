"""Copies that are none, or not always.

What the frameworks' own calls do whose names promise a copy, or are taken for one.
"""

from __future__ import annotations

from typing import Any

from mutants.mutant import mutant, replace

_LARGE_BYTES = 4096


@mutant(
    "copy.disjoint_on_the_same_device",
    "copy.writing_one_leaves_the_other",
    "as_in_device.differs_from_copy_to",
)
def copy_returns_self(backend: Any) -> None:
    """On the same device the tensor itself: ``x.to(device)`` of torch and Paddle, ``x.cpu()``."""
    copy = backend.copy_to

    @replace(backend)
    def copy_to(self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        return x if self.device_of(x) is device else copy(self, x, device, non_blocking)


@mutant("copy.disjoint_on_the_same_device", "copy.writing_one_leaves_the_other")
def copy_is_a_view(backend: Any) -> None:
    """A new object on the same memory: torch's ``copy.copy(x)``, MXNet's ``x[:]``, ``detach``."""
    copy = backend.copy_to

    @replace(backend)
    def copy_to(self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        return x.view() if self.device_of(x) is device else copy(self, x, device, non_blocking)


@mutant(
    "copy.disjoint_across_devices",
    "as_in_device.disjoint_copy_when_not_there",
    "copy.allocated_bytes_grow",
    "sequences.of_tensors",
)
def copy_changes_only_the_label(backend: Any) -> None:
    """Another device on the same buffer: TF's ``identity`` between logical devices."""
    import numpy as np

    copy = backend.copy_to

    @replace(backend)
    def copy_to(self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        if self.device_of(x) is device:
            return copy(self, x, device, non_blocking)
        return self._on(x.view(np.ndarray), device)


@mutant("copy.disjoint_on_the_same_device", "copy.sizes_and_alignments")
def copy_only_if_large(backend: Any) -> None:
    """Small tensors are shared, as if they were constants: TF's eager cache of small constants."""
    copy = backend.copy_to

    @replace(backend)
    def copy_to(self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        if x.nbytes < _LARGE_BYTES and self.device_of(x) is device:
            return x.view()
        return copy(self, x, device, non_blocking)


@mutant("copy.sizes_and_alignments", "copy.allocated_bytes_grow")
def copy_only_if_small(backend: Any) -> None:
    """Large tensors are shared to save the bytes: TF's ``tf.constant(x)`` of a tensor."""
    copy = backend.copy_to

    @replace(backend)
    def copy_to(self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        if x.nbytes > _LARGE_BYTES and self.device_of(x) is device:
            return x.view()
        return copy(self, x, device, non_blocking)


@mutant("create.from_numpy_without_aliasing")
def copy_only_if_unaligned(backend: Any) -> None:
    """64-byte-aligned arrays are shared: JAX's ``device_put(a, may_alias=False)`` on the CPU."""
    make = backend.from_numpy

    @replace(backend)
    def from_numpy(self: Any, array: Any, dtype: Any, device: Any) -> Any:
        if array.ctypes.data % 64 == 0 and array.dtype == dtype:
            return self._on(array.view(), device)
        return make(self, array, dtype, device)


@mutant("create.from_numpy_without_aliasing")
def from_numpy_aliases(backend: Any) -> None:
    """The array's own memory: ``torch.from_numpy``, ``torch.as_tensor``."""

    @replace(backend)
    def from_numpy(self: Any, array: Any, dtype: Any, device: Any) -> Any:
        return self._on(array.astype(dtype, copy=False).view(), device)


@mutant("copy.disjoint_on_the_same_device", "copy.allocated_bytes_grow")
def copy_is_lazy_until_write(backend: Any) -> None:
    """Shares until one of the two is written, so that writing shows nothing: ``tf.Variable(x)``."""
    import weakref

    import numpy as np

    from unidev.numpy_backend.simulated_array import SimulatedArray

    copy = backend.copy_to
    assign = SimulatedArray.__setitem__
    lazy: list[weakref.ref[Any]] = []

    @replace(backend)
    def copy_to(self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        if device.kind == "cpu" or self.device_of(x) is not device:
            return copy(self, x, device, non_blocking)
        shared = x.view()
        lazy.append(weakref.ref(shared))
        return shared

    @replace(SimulatedArray)
    def __setitem__(self: Any, key: Any, value: Any) -> None:
        for reference in lazy:
            shared = reference()
            if shared is not None and np.shares_memory(shared, self):
                # The one way to give an array other memory: as unpickling does.
                state: Any = (1, shared.shape, shared.dtype, False, shared.tobytes())
                np.ndarray.__setstate__(shared, state)
        assign(self, key, value)


@mutant("copy.writing_one_leaves_the_other")
def copy_is_done_when_first_read(backend: Any) -> None:
    """The bytes are fetched too late: a ``non_blocking`` copy whose source may change meanwhile."""
    import numpy as np

    from unidev.numpy_backend.probe import NumpyProbe

    copy, read_now = backend.copy_to, NumpyProbe.read
    pending: list[tuple[Any, Any]] = []

    @replace(backend)
    def copy_to(self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        made = copy(self, x, device, non_blocking)
        pending.append((made, x))
        return made

    @replace(NumpyProbe)
    def read(self: Any, x: Any) -> bytes:
        for made, source in pending:
            if made is x:
                made.view(np.ndarray)[...] = source.view(np.ndarray)
        pending[:] = [(made, source) for made, source in pending if made is not x]
        return read_now(self, x)


@mutant("copy.zero_size")
def empty_copy_returns_self(backend: Any) -> None:
    """Nothing to copy, so the tensor itself: what a test of addresses alone cannot see."""
    copy = backend.copy_to

    @replace(backend)
    def copy_to(self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        if x.size == 0 and self.device_of(x) is device:
            return x
        return copy(self, x, device, non_blocking)


@mutant("copy.source_intact")
def copy_donates_its_source(backend: Any) -> None:
    """The source's memory is given away: JAX's ``device_put(x, device, donate=True)``."""
    copy = backend.copy_to

    @replace(backend)
    def copy_to(self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        made = copy(self, x, device, non_blocking)
        if x.flags.writeable:
            x[...] = 0
        return made


@mutant("copy.copy_of_a_copy")
def copies_use_one_buffer_again(backend: Any) -> None:
    """The next copy takes the memory of the last, which is in use: a loader's staging buffer."""
    import numpy as np

    copy = backend.copy_to
    buffers: dict[Any, Any] = {}

    @replace(backend)
    def copy_to(self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        kind = device, x.shape, x.dtype
        if kind not in buffers:
            buffers[kind] = copy(self, x, device, non_blocking)
        buffer = buffers[kind]
        if self.device_of(x) is not device or not np.shares_memory(x, buffer):
            buffer.view(np.ndarray)[...] = x.view(np.ndarray)
            return buffer.view()
        return copy(self, x, device, non_blocking)


@mutant("copy.variables_and_parameters")
def variables_are_shared(backend: Any) -> None:
    """Tensors are copied, variables not: TF's ``read_value``, torch's ``Parameter.data``."""
    import numpy as np

    from unidev.numpy_backend.probe import NumpyProbe

    class Variable(np.ndarray):
        """NumPy has no variables: this stands for one."""

    copy, specials_of_numpy = backend.copy_to, NumpyProbe.specials

    @replace(NumpyProbe)
    def specials(self: Any, device: Any) -> Any:
        found = specials_of_numpy(self, device)
        return {**found, "variable": np.ones(3).view(Variable)} if device.kind == "cpu" else found

    @replace(backend)
    def copy_to(self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        return x.view() if type(x) is Variable else copy(self, x, device, non_blocking)
