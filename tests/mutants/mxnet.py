"""Faults of an MXNet backend in its tensors: contexts, semantics per thread, handles, sharing.

Each leaves out one thing that the backend takes care of, or uses the call of MXNet's that looks
right. MXNet is imported only where a mutant breaks something.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mutants.mutant import MXNET, around, in_place_of, mutant, replace, replace_value, when_restored

if TYPE_CHECKING:
    from collections.abc import Callable


mxnet_mutant = partial(mutant, plugin=MXNET)


# -- tensors ---------------------------------------------------------------------------------------


def _change_copies(backend: Any, when: Callable[[Any], bool], copied: Any) -> None:
    """Let ``copied(self, x, device)`` be the copy of an array ``when`` that says so of it."""
    copy, quick = backend.copy_to, backend.copy_if_there

    @replace(backend)
    def copy_to(self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        return copied(self, x, device) if when(x) else copy(self, x, device, non_blocking)

    @replace(backend)
    def copy_if_there(self: Any, x: Any, device: Any) -> Any:
        return None if when(x) else quick(self, x, device)


@mxnet_mutant(
    "copy.float64_and_int64_not_narrowed", "create.each_dtype_on_each_device", around="from_numpy"
)
def host_arrays_pass_through_float32(sound, self, array, dtype, device):
    """``mx.nd.array`` makes float32 of any host array, and ``astype`` widens what is left."""
    import mxnet as mx

    with mx.util.np_shape(True):
        return mx.nd.array(array, ctx=device.native).astype(dtype).as_np_ndarray()


@mxnet_mutant("create.from_numpy_without_aliasing", around="from_numpy")
def large_host_arrays_are_adopted(make, self, array, dtype, device):
    """``mx.nd.from_numpy`` shares a contiguous array's memory, by default, from 1 MiB on."""
    import mxnet as mx

    is_large = array.nbytes >= 2**20 and array.dtype == dtype and array.flags.c_contiguous
    if not is_large or not array.flags.writeable or device is not self.cpu:
        return make(self, array, dtype, device)
    made = mx.nd.from_numpy(array)
    array.flags.writeable = True  # MXNet has cleared it
    return made.as_np_ndarray()


@mxnet_mutant("smoke.globals_restored")
def reading_leaves_numpy_shapes_on(backend):
    """``mx.util.set_np_shape(True)`` for 0-d arrays, which nothing switches off again."""
    import mxnet as mx

    was_on = mx.util.is_np_shape()
    when_restored(lambda: mx.util.set_np_shape(was_on))

    @around(backend)
    def to_numpy(read, self, x):
        mx.util.set_np_shape(True)
        return read(self, x)


@mxnet_mutant("create.zero_d", around="full")
def zero_d_is_made_in_the_current_context(make, self, shape, value, dtype, device):
    """A number is filled in without ``ctx``, on what is the default in this thread."""
    import mxnet as mx

    if shape:
        return make(self, shape, value, dtype, device)
    with mx.util.np_shape(True):
        return mx.np.array(value, dtype=dtype)


@mxnet_mutant("devices.unique", around="device_count")
def every_context_is_a_cpu_too(count, self, kind):
    """``mx.cpu(1)`` is counted among CPUs, and is the memory of a simulated GPU as well."""
    return 1 + self.simulated_count if kind == "cpu" else count(self, kind)


@mxnet_mutant("queued.read_at_once", "copy.non_blocking")
def queued_copies_bypass_the_engine(backend):
    """The bytes are written through NumPy, of which MXNet's engine, asked for a value, is unaware.

    So they arrive when somebody waits for the device.
    """
    from unidev_mxnet.native_calls import host_view

    copy, wait = backend.copy_to, backend.synchronize
    queue: list[Any] = []

    @replace(backend)
    def copy_to(self, x, device, non_blocking):
        if not non_blocking or not x.size:
            return copy(self, x, device, non_blocking)
        made = self.zeros(x.shape, x.dtype, device)
        queue.append((host_view(made), host_view(x)))
        return made

    @replace(backend)
    def synchronize(self, device):
        wait(self, device)
        while queue:
            target, source = queue.pop(0)
            target[...] = source


@mxnet_mutant("copy.lands_on_the_device_asked_for")
def devices_are_known_by_the_handle(backend):
    """``x.ctx`` takes 2 µs, so it is kept by the handle, whose address the next array gets."""
    known: dict[int, Any] = {}

    @around(backend)
    def device_of(ask, self, x):
        address = x.handle.value
        if address not in known:
            known[address] = ask(self, x)
        return known[address]


@mxnet_mutant("scarcity.every_verb")
def copies_are_allocated_by_the_operator(backend):
    """``copyto`` returns before there is memory, and the error comes to whoever waits next."""
    import mxnet as mx

    def copied(_self, x, device):
        with mx.util.np_shape(True):
            return x.copyto(device.native)

    _change_copies(backend, lambda _: True, copied)


@mxnet_mutant("copy.gradient_reaches_the_source")
def copies_of_variables_are_variables(backend):
    """``attach_grad``, to have the copy trainable as well, cuts it off from its source."""
    copy, quick = backend.copy_to, backend.copy_if_there

    def attached(x, made):
        if x.grad is not None and made is not None:
            made.attach_grad()
        return made

    @replace(backend)
    def copy_to(self, x, device, non_blocking):
        return attached(x, copy(self, x, device, non_blocking))

    @replace(backend)
    def copy_if_there(self, x, device):
        return attached(x, quick(self, x, device))


@mxnet_mutant("gradients.any_dtype_and_size", profile="train")
def large_copies_go_through_the_host(backend):
    """Above 2**16 elements ``_sync_copyfrom`` is faster between contexts; it is not recorded."""

    def copied(self, x, device):
        made = self.empty(x.shape, x.dtype, device)
        made._sync_copyfrom(x.asnumpy())
        return made

    _change_copies(backend, lambda x: x.size > 2**16, copied)


# -- other frameworks ------------------------------------------------------------------------------


@mxnet_mutant("converting.values", profile="interop", around=".memory.interop:MxnetInterop.dtypes")
def bool_is_exported_as_one_bit(sound, self):
    """MXNet's capsules say that a bool has one bit, as no other framework reads it."""
    return list(self.backend.dtypes)


@mxnet_mutant("converting.values", "converting.shared_or_refused", profile="interop")
def strides_are_dropped(backend):
    """MXNet refuses a capsule with strides, so they are cleared: memory is read in its order."""
    import ctypes

    from unidev_mxnet.memory import interop

    exact = interop.of_capsule

    class WithStrides(ctypes.Structure):
        _fields_ = (*interop._Tensor._fields_, ("strides", ctypes.c_void_p))

    @in_place_of(exact)
    def of_capsule(capsule):
        address = interop._get_pointer(capsule, interop._FRESH)
        WithStrides.from_address(address).strides = None
        return exact(capsule)


# -- peculiar arrays -------------------------------------------------------------------------------


@mxnet_mutant("copy.strings_ragged_sparse")
def sparse_copies_are_dense(backend):
    """A sparse array is copied as the dense one of the same values, which every operator takes."""
    from mxnet.ndarray.sparse import BaseSparseNDArray

    copy = backend.copy_to
    _change_copies(
        backend,
        lambda x: isinstance(x, BaseSparseNDArray),
        lambda self, x, device: copy(self, x.tostype("default"), device, False),
    )


@mxnet_mutant("values.tensors_convert_as_lists_do")
def integers_become_double_by_way_of_single(backend):
    """2**24 + 1 as float64 is 2**24, as MXNet's ``np.array`` makes float32 of what it is given."""

    cast = backend.cast

    def by_float32(self, x, dtype, device):
        if x.dtype in (np.int32, np.int64) and np.dtype(dtype) == np.float64:
            x = cast(self, x, np.dtype("float32"), device)
        return cast(self, x, dtype, device)

    replace_value(backend, "cast", by_float32)


@mxnet_mutant("threads.concurrent_copies_are_right")
def shapes_are_numpys_in_the_main_thread_alone(_):
    """``npx.set_np`` once, where the module is imported: it is a setting of that thread."""
    import threading

    from unidev_mxnet.native_calls import numpy_shapes

    enter, leave = numpy_shapes.__enter__, numpy_shapes.__exit__
    main = threading.main_thread()

    def enter_there(self):
        if threading.current_thread() is main:
            enter(self)

    def leave_there(self, *error):
        if threading.current_thread() is main:
            leave(self, *error)

    replace_value(numpy_shapes, "__enter__", enter_there)
    replace_value(numpy_shapes, "__exit__", leave_there)


@mxnet_mutant("tracer.each_call_of_the_framework", everywhere=".tracer.arrays:size_at")
def sparse_arrays_move_their_shape(sound, handle):
    """The bytes of a sparse array are counted as if it were dense."""
    from unidev_mxnet.tracer import arrays

    array = arrays.Borrowed(handle)
    return array.shape, arrays._nbytes(array)
