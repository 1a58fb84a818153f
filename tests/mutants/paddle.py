"""Faults that a backend for PaddlePaddle has, as Paddle 3.3 itself misleads whoever writes one."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mutants.mutant import PADDLE, in_place_of, mutant, replace, replace_value, when_restored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mutants.mutant import Breaks, Mutant


def paddle_mutant(*caught_by: str, profile: str = "tensor") -> Callable[[Breaks], Mutant]:
    """As ``mutant``, of Paddle's backend."""
    return mutant(*caught_by, profile=profile, plugin=PADDLE)


# -- places ----------------------------------------------------------------------------------------


@paddle_mutant("copy.lands_on_the_device_asked_for", "copy.disjoint_across_devices")
def simulated_places_are_compared_by_their_type(backend: Any) -> None:
    """A copy from sim:0 to sim:1 stays on sim:0: the type of a place has no index."""
    there = backend.copy_if_there

    @replace(backend)
    def copy_if_there(self: Any, x: Any, device: Any) -> Any:
        same = x.place.is_custom_place() and device.native.is_custom_place()
        return x.clone() if same else there(self, x, device)


@paddle_mutant("threads.scope_stays_in_its_thread")
def a_scope_sets_the_place_of_the_process(backend: Any) -> None:
    """``with device:`` calls ``paddle.set_device``, which every thread sees."""
    import paddle

    outside = paddle.get_device()
    when_restored(lambda: paddle.set_device(outside))

    @replace(backend)
    @contextmanager
    def native_scope(self: Any, device: Any) -> Iterator[None]:
        before = paddle.get_device()
        paddle.set_device(device.native_name)
        try:
            yield
        finally:
            paddle.set_device(before)


@paddle_mutant("create.zero_size")
def full_of_no_elements_stays_on_the_host(backend: Any) -> None:
    """The kernel of ``full`` falls back to the CPU, and Paddle leaves an empty result there."""
    import paddle

    @replace(backend)
    def full(self: Any, shape: Any, value: Any, dtype: Any, device: Any) -> Any:
        return paddle._C_ops.full(shape, value, dtype, device.native)


@paddle_mutant("values.tensors_convert_as_lists_do")
def no_elements_are_converted_on_the_host(backend: Any) -> None:
    """As with ``full``: what has no elements is on the CPU once its dtype is another."""
    convert = backend.cast

    @replace(backend)
    def cast(self: Any, x: Any, dtype: Any, device: Any) -> Any:
        if 0 in x.shape:
            return self.copy_to(x, device, False).detach().cast(dtype)
        return convert(self, x, dtype, device)


@paddle_mutant("create.device_of_tensor_view_and_result")
def sparse_tensors_are_on_the_current_place(backend: Any) -> None:
    """A sparse tensor is thought to have no place of its own, and so the current one's is given."""
    import paddle

    find = backend.device_of

    @replace(backend)
    def device_of(self: Any, x: Any) -> Any:
        if isinstance(x, paddle.Tensor) and (x.is_sparse_coo() or x.is_sparse_csr()):
            return self._devices[hash(paddle.base.framework._current_expected_place())]
        return find(self, x)


@paddle_mutant("statistics.memory")
def all_simulated_gpus_have_the_memory_of_the_first(backend: Any) -> None:
    """Paddle's statistics are asked by a number that is 0 where none is given."""
    from unidev_paddle import memory

    sound = memory.of_simulated

    @replace(memory)
    def of_simulated(index: int) -> Any:
        return sound(0)


@paddle_mutant("statistics.peak")
def a_peak_is_never_reset(backend: Any) -> None:
    """The peak is that of the process: Paddle's is reset only by ``reset_max_memory_allocated``."""
    from unidev_paddle.memory import PaddlePeaks

    @replace(PaddlePeaks)
    def restart(self: Any, device: Any) -> None: ...


# -- values ----------------------------------------------------------------------------------------


@paddle_mutant("values.tensors_convert_as_lists_do")
def float16_by_paddles_own_cast(backend: Any) -> None:
    """4e-24 becomes 7e-05 in float16, and other dtypes are converted as they should be."""

    @replace(backend)
    def cast(self: Any, x: Any, dtype: Any, device: Any) -> Any:
        if 0 in x.shape:
            return self.empty(tuple(x.shape), dtype, device)
        return self.copy_to(x, device, False).detach().cast(dtype)


@paddle_mutant("create.zero_d")
def arrays_of_no_axis_get_one(backend: Any) -> None:
    """A number becomes a tensor of shape (1,), as all of Paddle's were until 2.5."""
    import numpy as np

    make = backend.from_numpy

    @replace(backend)
    def from_numpy(self: Any, array: Any, dtype: Any, device: Any) -> Any:
        return make(self, np.ascontiguousarray(array), dtype, device)


@paddle_mutant("create.from_numpy_without_aliasing")
def large_tensors_are_read_without_a_copy(backend: Any) -> None:
    """Reading a tensor of the CPU above 64 KiB gives an array on its memory, by DLPack."""
    import numpy as np

    read = backend.to_numpy

    @replace(backend)
    def to_numpy(self: Any, x: Any) -> Any:
        values = read(self, x)
        if values.nbytes <= 2**16 or not (x.place.is_cpu_place() and x.is_contiguous()):
            return values
        return np.from_dlpack(x.detach())


@paddle_mutant("errors.deleted_tensor")
def a_deleted_tensor_reads_as_an_empty_one(backend: Any) -> None:
    """``numpy()`` of a tensor after ``_clear_data`` is an empty array, without an error."""

    @replace(backend)
    def to_numpy(self: Any, x: Any) -> Any:
        return x.numpy()


@paddle_mutant("copy.strings_ragged_sparse")
def copies_of_sparse_tensors_share_indices(backend: Any) -> None:
    """Only the values of a sparse tensor are copied, as indices are hardly ever written to."""
    import paddle

    from unidev_paddle import copying

    sound = copying.copied_sparse

    @in_place_of(sound)
    def copied_sparse(x: Any, copy: Any) -> Any:
        make = paddle._C_ops.sparse_sparse_coo_tensor
        if x.is_sparse_coo():
            return make(copy(x.values()), x.indices(), x.shape)
        if not x.is_sparse_csr():  # rows of gradients, which are refused
            return sound(x, copy)
        parts = (x.crows(), x.cols(), copy(x.values()))
        return paddle.base.core.eager.sparse_csr_tensor(*parts, x.shape, True)


@paddle_mutant("queued.read_at_once", "queued.source_changed_at_once")
def a_queued_copy_reads_its_source_late(backend: Any) -> None:
    """Paddle's own non-blocking copy reads a source that may have changed by then."""
    from unidev_paddle.copying import empty_at

    sound = backend.copy_to
    timers: list[threading.Timer] = []
    when_restored(lambda: [timer.join() for timer in timers])

    @replace(backend)
    def copy_to(self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        if not (non_blocking and x.is_dense()):
            return sound(self, x, device, non_blocking)
        made = empty_at(x.shape, x.dtype, device.native)
        timers.append(threading.Timer(0.2, lambda: made.copy_(x, True)))
        timers[-1].start()
        return made


@paddle_mutant("tracer.read_is_reported_once")
def a_transfer_has_the_size_of_an_allocation(backend: Any) -> None:
    """Bytes are those that the allocator has given, in multiples of 256, and not the values'."""
    from unidev_paddle.tracer import transfers

    @replace(transfers)
    def nbytes_of(x: Any) -> int:
        return int(x._holder_size())


@paddle_mutant("copy.gradient_reaches_the_source")
def a_moved_copy_only_says_that_it_has_a_gradient(backend: Any) -> None:
    """``x.to(place)`` has ``stop_gradient=False``, and no gradient ever reaches ``x``."""
    from unidev_paddle import copying

    @replace(copying.Move)
    @staticmethod
    def apply(x: Any, place: Any) -> Any:
        made = copying.move_cut(x, place)
        made.stop_gradient = x.stop_gradient
        return made


# -- sharing with other frameworks -----------------------------------------------------------------


def _interop(*caught_by: str) -> Callable[[Breaks], Mutant]:
    return paddle_mutant(*(f"converting.{each}" for each in caught_by), profile="interop")


@_interop("immutable")
def read_only_memory_becomes_writable(backend: Any) -> None:
    """A tensor of Paddle on read-only memory is written to as any other is."""
    from unidev_paddle.memory.interop import PaddleInterop

    replace_value(PaddleInterop, "keeps_read_only", True)


@_interop("gradients_cut")
def parameters_are_not_exported(backend: Any) -> None:
    """Paddle's DLPack refuses a tensor that needs a gradient."""
    from unidev_paddle.memory.interop import PaddleInterop, _OfCpu

    @replace(PaddleInterop)
    def export(self: Any, x: Any) -> Any:
        if not x.stop_gradient:
            raise BufferError("a tensor that requires a gradient cannot be exported")
        return _OfCpu(x)


@_interop("shared_or_refused")
def strided_memory_is_copied_as_it_is_adopted(backend: Any) -> None:
    """Operators want contiguous tensors, so an adopted one is made contiguous at once."""
    from unidev_paddle.memory.interop import PaddleInterop

    sound = PaddleInterop.adopt

    @replace(PaddleInterop)
    def adopt(self: Any, exported: Any, is_read_only: bool) -> Any:
        made = sound(self, exported, is_read_only)
        return made if made.is_contiguous() else made.contiguous()


@_interop("values", "zero_d_and_empty")
def bool_is_adopted_as_bytes(backend: Any) -> None:
    """A bool is a byte to the DLPack of older frameworks, and to Paddle until 2.6."""
    from unidev_paddle.framework import paddle
    from unidev_paddle.memory.interop import PaddleInterop

    sound = PaddleInterop.adopt

    @replace(PaddleInterop)
    def adopt(self: Any, exported: Any, is_read_only: bool) -> Any:
        made = sound(self, exported, is_read_only)
        return made.view(paddle.uint8) if made.dtype == paddle.bool else made


# -- peculiar tensors ------------------------------------------------------------------------------


@paddle_mutant("copy.variables_and_parameters")
def copies_of_parameters_are_cut(backend: Any) -> None:
    """``_copy_to`` of a parameter has a gradient of its own, which is not its source's."""
    from unidev_paddle.framework import paddle

    _change_copies(
        backend,
        lambda x: isinstance(x, paddle.base.framework.EagerParamBase),
        lambda x, device: x.detach()._copy_to(device.native, True),
    )


@paddle_mutant("copy.strings_ragged_sparse")
def copies_of_sparse_tensors_are_cut(backend: Any) -> None:
    """A sparse copy is made of its parts, detached: the loss does not reach what it came from."""
    from unidev_paddle import copying

    copied = copying.copied_sparse

    @in_place_of(copied)
    def copied_sparse(x: Any, copy: Any) -> Any:
        return copied(x.detach() if x.is_sparse_coo() else x, copy)


@paddle_mutant("copy.disjoint_on_the_same_device", "copy.disjoint_across_devices")
def views_are_made_contiguous_in_place(backend: Any) -> None:
    """``x.contiguous()`` of a strided view gives that object new memory: it is a view no more."""

    def never(x: Any) -> bool:
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


@paddle_mutant("create.each_dtype_on_each_device")
def bfloat16_is_read_as_its_bits(backend: Any) -> None:
    """``x.numpy()`` of bfloat16 is an array of uint16."""

    @replace(backend)
    def to_numpy(self: Any, x: Any) -> Any:
        self.device_of(x)
        return x.numpy().copy(order="C")


@paddle_mutant("create.shares_memory")
def extents_begin_at_the_view(backend: Any) -> None:
    """``data_ptr`` of a part of a tensor is its own first byte, not that of the allocation."""
    from unidev.contract import Extent

    sound = backend.extents

    @replace(backend)
    def extents(self: Any, x: Any) -> Any:
        found = sound(self, x)
        if not x.is_dense() or not found[0].nbytes:
            return found
        return [Extent(x.data_ptr(), each.nbytes - x.offset) for each in found]
