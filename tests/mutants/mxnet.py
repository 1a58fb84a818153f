"""Faults of an MXNet backend in its tensors: contexts, semantics per thread, handles, sharing.

Each leaves out one thing that the backend takes care of, or uses the call of MXNet's that looks
right. MXNet is imported only where a mutant breaks something.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

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


@mxnet_mutant("devices.unique", around="device_count")
def every_context_is_a_cpu_too(count, self, kind):
    """``mx.cpu(1)`` is counted among CPUs, and is the memory of a simulated GPU as well."""
    return 1 + self.simulated_count if kind == "cpu" else count(self, kind)


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
