"""Faults that a backend for PaddlePaddle has, as Paddle 3.3 itself misleads whoever writes one."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mutants.mutant import PADDLE, around, mutant, replace, replace_value, when_restored

if TYPE_CHECKING:
    from collections.abc import Callable


paddle_mutant = partial(mutant, plugin=PADDLE)


# -- places ----------------------------------------------------------------------------------------


@paddle_mutant(
    "copy.lands_on_the_device_asked_for", "copy.disjoint_across_devices", around="copy_if_there"
)
def simulated_places_are_compared_by_their_type(there, self, x, device):
    """A copy from sim:0 to sim:1 stays on sim:0: the type of a place has no index."""
    same = x.place.is_custom_place() and device.native.is_custom_place()
    return x.clone() if same else there(self, x, device)


@paddle_mutant("threads.scope_stays_in_its_thread")
def a_scope_sets_the_place_of_the_process(backend):
    """``with device:`` calls ``paddle.set_device``, which every thread sees."""
    import paddle

    outside = paddle.get_device()
    when_restored(lambda: paddle.set_device(outside))

    @replace(backend)
    @contextmanager
    def native_scope(self, device):
        before = paddle.get_device()
        paddle.set_device(device.native_name)
        try:
            yield
        finally:
            paddle.set_device(before)


@paddle_mutant("create.zero_size", around="full")
def full_of_no_elements_stays_on_the_host(sound, self, shape, value, dtype, device):
    """The kernel of ``full`` falls back to the CPU, and Paddle leaves an empty result there."""
    import paddle

    return paddle._C_ops.full(shape, value, dtype, device.native)


@paddle_mutant("statistics.memory", around=".memory:of_simulated")
def all_simulated_gpus_have_the_memory_of_the_first(sound, index):
    """Paddle's statistics are asked by a number that is 0 where none is given."""
    return sound(0)


@paddle_mutant("statistics.peak")
def a_peak_is_never_reset(backend):
    """The peak is that of the process: Paddle's is reset only by ``reset_max_memory_allocated``."""
    from unidev_paddle.memory import PaddlePeaks

    @replace(PaddlePeaks)
    def restart(self, device): ...


# -- values ----------------------------------------------------------------------------------------


@paddle_mutant("create.from_numpy_without_aliasing", around="to_numpy")
def large_tensors_are_read_without_a_copy(read, self, x):
    """Reading a tensor of the CPU above 64 KiB gives an array on its memory, by DLPack."""
    values = read(self, x)
    if values.nbytes <= 2**16 or not (x.place.is_cpu_place() and x.is_contiguous()):
        return values
    return np.from_dlpack(x.detach())


@paddle_mutant("errors.deleted_tensor", around="to_numpy")
def a_deleted_tensor_reads_as_an_empty_one(sound, self, x):
    """``numpy()`` of a tensor after ``_clear_data`` is an empty array, without an error."""
    return x.numpy()


@paddle_mutant("copy.strings_ragged_sparse", everywhere=".copying:copied_sparse")
def copies_of_sparse_tensors_share_indices(sound, x, copy):
    """Only the values of a sparse tensor are copied, as indices are hardly ever written to."""
    import paddle

    make = paddle._C_ops.sparse_sparse_coo_tensor
    if x.is_sparse_coo():
        return make(copy(x.values()), x.indices(), x.shape)
    if not x.is_sparse_csr():  # rows of gradients, which are refused
        return sound(x, copy)
    parts = (x.crows(), x.cols(), copy(x.values()))
    return paddle.base.core.eager.sparse_csr_tensor(*parts, x.shape, True)


@paddle_mutant("queued.read_at_once", "queued.source_changed_at_once")
def a_queued_copy_reads_its_source_late(backend):
    """Paddle's own non-blocking copy reads a source that may have changed by then."""
    from unidev_paddle.copying import empty_at

    timers: list[threading.Timer] = []
    when_restored(lambda: [timer.join() for timer in timers])

    @around(backend)
    def copy_to(sound, self, x, device, non_blocking):
        if not (non_blocking and x.is_dense()):
            return sound(self, x, device, non_blocking)
        made = empty_at(x.shape, x.dtype, device.native)
        timers.append(threading.Timer(0.2, lambda: made.copy_(x, True)))
        timers[-1].start()
        return made


@paddle_mutant("tracer.read_is_reported_once", around=".tracer.transfers:nbytes_of")
def a_transfer_has_the_size_of_an_allocation(sound, x):
    """Bytes are those that the allocator has given, in multiples of 256, and not the values'."""
    return int(x._holder_size())


# -- sharing with other frameworks -----------------------------------------------------------------


def _interop(*caught_by: str, **options: Any) -> Any:
    checks = (f"converting.{each}" for each in caught_by)
    return paddle_mutant(*checks, profile="interop", **options)


@_interop("gradients_cut")
def parameters_are_not_exported(backend):
    """Paddle's DLPack refuses a tensor that needs a gradient."""
    from unidev_paddle.memory.interop import PaddleInterop, _OfCpu

    @replace(PaddleInterop)
    def export(self, x):
        if not x.stop_gradient:
            raise BufferError("a tensor that requires a gradient cannot be exported")
        return _OfCpu(x)


# -- peculiar tensors ------------------------------------------------------------------------------


@paddle_mutant("copy.strings_ragged_sparse", everywhere=".copying:copied_sparse")
def copies_of_sparse_tensors_are_cut(copied, x, copy):
    """A sparse copy is made of its parts, detached: the loss does not reach what it came from."""
    return copied(x.detach() if x.is_sparse_coo() else x, copy)


@paddle_mutant("copy.disjoint_on_the_same_device", "copy.disjoint_across_devices")
def views_are_made_contiguous_in_place(backend):
    """``x.contiguous()`` of a strided view gives that object new memory: it is a view no more."""

    def never(x):
        if x.is_dense() and x._is_initialized() and x.place.is_cpu_place():
            x.contiguous()
        return False

    _change_copies(backend, never, None)


def _change_copies(backend: Any, when: Callable[[Any], bool], copied: Any) -> None:
    """Let ``copied(x, device)`` be the copy of a tensor ``when`` that says so of it."""
    copy, there = backend.copy_to, backend.copy_if_there

    @replace(backend)
    def copy_to(self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        return copied(x, device) if when(x) else copy(self, x, device, non_blocking)

    @replace(backend)
    def copy_if_there(self: Any, x: Any, device: Any) -> Any:
        return None if when(x) else there(self, x, device)


@paddle_mutant("tracer.each_call_of_the_framework")
def numbers_are_indices(backend):
    """``x[n]`` with a tensor without axes is taken for a lookup on the GPU; Paddle reads ``n``."""
    from unidev_paddle.tracer import operations

    replace_value(operations, "_is_number", lambda index: False)
