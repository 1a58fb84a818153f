"""Backends that are wrong in what only hardware can show; see ``cards``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mutants.cards import plain, put_cards_into
from mutants.mutant import mutant, replace, replace_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from mutants.mutant import Breaks, Mutant


def cards_mutant(
    *caught_by: str, result: str = "fail", profile: str = "tensor"
) -> Callable[[Breaks], Mutant]:
    """As ``mutant``, of a backend with GPUs that count as hardware."""
    return mutant(*caught_by, result=result, profile=profile, simulated_count=0)


@cards_mutant(
    "copy.non_blocking", "queued.read_at_once", "queued.behind_queued_work",
    "queued.source_changed_at_once", "queued.source_dropped_at_once", "queued.synchronized",
    "queued.side_stream",
    "current.device_and_stream_stay", "contexts.looking_makes_none", "contexts.fork_after_looking",
    "statistics.memory", "statistics.peak", "statistics.first_use", "scarcity.every_verb",
    "pinned.copies", "pinned.pinned_once",
    result="pass",
)  # fmt: skip
def cards_that_work(backend: Any) -> None:
    """Nothing is broken: two GPUs with contexts, streams, and memory that comes to an end."""
    put_cards_into(backend)


@cards_mutant("reducing.current_device_stays", result="pass", profile="multi")
def cards_side_by_side(backend: Any) -> None:
    """Nothing is broken: two cards and the host at work on one batch."""
    put_cards_into(backend)


@cards_mutant(
    "failures.full_card", "placing.current_device_stays", result="pass", profile="train"
)  # fmt: skip
def cards_that_take_models(backend: Any) -> None:
    """Nothing is broken: a model that does not fit stays whole where it was."""
    put_cards_into(backend)


@cards_mutant("failures.full_card", profile="train")
def full_cards_keep_what_fitted(backend: Any) -> None:
    """Each part is exchanged as soon as it has a twin: ``Module.to`` that runs out of memory."""
    from unidev.numpy_backend.models import NumpyModels

    put_cards_into(backend)
    make = NumpyModels.twin

    @replace(NumpyModels)
    def twin(self: Any, part: Any, device: Any) -> Any:
        made = make(self, part, device)
        self.swap(part, made)
        return made


@cards_mutant("queued.read_at_once", "queued.synchronized")
def copies_to_the_host_are_pending(backend: Any) -> None:
    """``x.to("cpu", non_blocking=True)``: what reads host memory does not wait for the GPU."""
    import numpy as np

    cards = put_cards_into(backend)
    copy = backend.copy_to

    @replace(backend)
    def copy_to(self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        source = cards.of(self.device_of(x))
        if source is None or device.kind != "cpu" or not non_blocking:
            return copy(self, x, device, non_blocking)
        made = np.zeros(x.shape, x.dtype)
        source.queues[cards.stream(source)].append(lambda: np.copyto(made, plain(x)))
        return made


def _copy_by_address(backend: Any, stream: Callable[[Any, Any], int | None]) -> None:
    """Queue copies between GPUs, in that stream, by the address of their source.

    The source may have been freed meanwhile. No stream: as it should be.
    """
    import ctypes

    cards = put_cards_into(backend)
    copy = backend.copy_to

    @replace(backend)
    def copy_to(self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        source, target = cards.of(self.device_of(x)), cards.of(device)
        if source is None or target is None or not non_blocking or not x.flags.c_contiguous:
            return copy(self, x, device, non_blocking)
        queue = stream(cards, source)
        if queue is None:
            return copy(self, x, device, non_blocking)
        made = self.empty(x.shape, x.dtype, device)
        to, at, nbytes = plain(made), x.ctypes.data, x.nbytes

        def run() -> None:
            ctypes.memmove(to.ctypes.data, at, nbytes)

        source.queues[queue].append(run)
        target.queues[cards.stream(target)].append(source.flush)
        return made


@cards_mutant("queued.side_stream")
def sources_are_not_recorded_in_side_streams(backend: Any) -> None:
    """``record_stream`` is missing: the allocator knows of the stream that made a tensor alone."""
    _copy_by_address(backend, lambda cards, source: cards.stream(source) or None)


@cards_mutant("queued.source_dropped_at_once")
def copies_have_a_stream_of_their_own(backend: Any) -> None:
    """A stream for copies, of which the allocator of their sources does not know."""
    _copy_by_address(backend, lambda cards, source: -1)


@cards_mutant("queued.source_changed_at_once")
def pinned_sources_are_read_later(backend: Any) -> None:
    """``pin_memory`` and ``non_blocking``, as every tutorial has it: the copy goes on reading."""
    cards = put_cards_into(backend)
    copy, pin = backend.copy_to, backend.pinned
    kept: list[Any] = []

    @replace(backend)
    def copy_to(self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        made = copy(self, x, device, non_blocking)
        target = cards.of(device)
        if target is not None and non_blocking and any(x is each for each in kept):
            to = plain(made)
            target.queues[cards.stream(target)].append(lambda: to.__setitem__(..., x))
        return made

    @replace(backend)
    def pinned(self: Any, x: Any) -> Any:
        kept.append(pin(self, x))
        return kept[-1]


@cards_mutant("pinned.copies")
def pinning_locks_the_users_own_memory(backend: Any) -> None:
    """``cudaHostRegister``: no copy, so writing to the batch changes what is being transferred."""
    put_cards_into(backend)
    replace_value(backend, "pinned", lambda self, x: x.view())


@cards_mutant("pinned.pinned_once")
def pinning_always_copies(backend: Any) -> None:
    """A loader that pins already makes another pinned copy of each batch."""
    put_cards_into(backend)
    replace_value(backend, "pinned", lambda self, x: x.copy())


@cards_mutant("queued.side_stream")
def synchronize_waits_for_the_usual_stream(backend: Any) -> None:
    """Other streams of the device go on: ``torch.cuda.default_stream().synchronize()``."""
    cards = put_cards_into(backend)

    @replace(backend)
    def synchronize(self: Any, device: Any) -> None:
        card = cards.of(device)
        if card is not None:
            card.flush(0)


def _change_the_current_device(backend: Any) -> None:
    """Let copies make their target the current device, and leave it so."""
    cards = put_cards_into(backend)
    copy = backend.copy_to

    @replace(backend)
    def copy_to(self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        if device.kind == "gpu":
            cards.current.index = device.index
        return copy(self, x, device, non_blocking)


@cards_mutant("current.device_and_stream_stay")
def copies_change_the_current_device(backend: Any) -> None:
    """``cudaSetDevice`` without a guard: a later ``device="cuda"`` means another GPU."""
    _change_the_current_device(backend)


@cards_mutant("placing.current_device_stays", profile="train")
def placing_changes_the_current_device(backend: Any) -> None:
    """A model that goes to a GPU takes the thread with it: ``torch.cuda.set_device`` in scripts."""
    _change_the_current_device(backend)


@cards_mutant("reducing.current_device_stays", profile="multi")
def reducing_changes_the_current_device(backend: Any) -> None:
    """A loop over devices that ends with the last one current: NCCL's examples."""
    _change_the_current_device(backend)


@cards_mutant("current.device_and_stream_stay")
def waiting_goes_back_to_the_usual_stream(backend: Any) -> None:
    """``synchronize`` makes the default stream current, and leaves it so."""
    cards = put_cards_into(backend)
    wait = backend.synchronize

    @replace(backend)
    def synchronize(self: Any, device: Any) -> None:
        wait(self, device)
        cards.current.streams = {}


@cards_mutant("contexts.looking_makes_none")
def counting_makes_a_context(backend: Any) -> None:
    """To count devices is to initialise the first: ``paddle.device.cuda.get_device_properties``."""
    cards = put_cards_into(backend)

    @replace(backend)
    def device_count(self: Any, kind: str) -> int:
        cards.all[0].touch()
        return 1 if kind == "cpu" else len(cards.all)


@cards_mutant("contexts.looking_makes_none")
def waiting_makes_contexts_everywhere(backend: Any) -> None:
    """``torch.accelerator.synchronize(device)``: hundreds of megabytes on each card."""
    cards = put_cards_into(backend)
    wait = backend.synchronize

    @replace(backend)
    def synchronize(self: Any, device: Any) -> None:
        card = cards.of(device)
        if card is not None:
            card.touch()
        wait(self, device)


@cards_mutant("contexts.fork_after_looking")
def looking_spoils_a_fork(backend: Any) -> None:
    """``cudaGetDeviceCount`` counts the devices: a process forked later cannot use CUDA."""
    import os

    from mutants.cards import Card

    put_cards_into(backend)
    count, touch_first = backend.device_count, Card.touch
    asked: list[int] = []

    @replace(backend)
    def device_count(self: Any, kind: str) -> int:
        if kind == "gpu":
            asked.append(os.getpid())
        return count(self, kind)

    @replace(Card)
    def touch(self: Any) -> None:
        if asked and asked[0] != os.getpid():
            raise RuntimeError("CUDA error 3: initialization error")
        touch_first(self)


@cards_mutant("statistics.memory")
def memory_sees_no_tensor(backend: Any) -> None:
    """Used is what was there at the start: a counter that is read once."""
    from unidev.contract.backend import Memory

    put_cards_into(backend)
    read = backend.memory

    def memory(self: Any, device: Any) -> Any:
        return Memory(0, *read(self, device)[1:])

    replace_value(backend, "memory", memory)


@cards_mutant("statistics.memory")
def free_is_what_the_driver_has_not_counted(backend: Any) -> None:
    """Total less used, of two counters that do not fit together: a negative size."""
    put_cards_into(backend)
    read = backend.memory

    def memory(self: Any, device: Any) -> Any:
        return read(self, device)._replace(free_bytes=-1)

    replace_value(backend, "memory", memory)


def _break_peaks(backend: Any, **methods: Any) -> None:
    """Replace methods of the counter of peaks; each receives the cards first."""
    cards = put_cards_into(backend)
    made = backend.peaks.fget

    def peaks(self: Any) -> Any:
        found = made(self)
        for name, method in methods.items():
            setattr(found, name, lambda device, method=method: method(cards, device))
        return found

    replace_value(backend, "peaks", property(peaks))


@cards_mutant("statistics.peak")
def the_peak_is_not_reset(backend: Any) -> None:
    """``track_memory`` shows the peak since the process began."""
    _break_peaks(backend, restart=lambda cards, device: None)


@cards_mutant("statistics.peak")
def one_peak_for_all_devices(backend: Any) -> None:
    """The counter is that of the host's allocator, which serves all devices."""
    _break_peaks(backend, peak_bytes=lambda cards, device: max(each.peak for each in cards.all))


@cards_mutant("statistics.first_use")
def peaks_before_the_first_use_fail(backend: Any) -> None:
    """``torch.cuda.reset_peak_memory_stats``: "Invalid device argument" until CUDA was used."""

    def restart(cards: Any, device: Any) -> None:
        card = cards.all[device.index]
        if not card.has_context:
            raise RuntimeError("Invalid device argument")
        card.peak = card.used

    _break_peaks(backend, restart=restart)


@cards_mutant("scarcity.every_verb")
def a_full_card_is_some_error(backend: Any) -> None:
    """An error that nobody takes for a lack of memory: CUBLAS_STATUS_NOT_INITIALIZED."""
    from mutants.cards import Card

    put_cards_into(backend)
    make = Card.empty

    @replace(Card)
    def empty(self: Any, shape: Any, dtype: Any) -> Any:
        try:
            return make(self, shape, dtype)
        except RuntimeError as error:
            raise RuntimeError("the handle is not initialized") from error


@cards_mutant("scarcity.every_verb")
def a_failed_allocation_stays_counted(backend: Any) -> None:
    """The pool subtracts before it asks: from the first failure on, nothing fits any more."""
    from mutants.cards import CAPACITY, Card

    put_cards_into(backend)
    make = Card.empty

    @replace(Card)
    def empty(self: Any, shape: Any, dtype: Any) -> Any:
        try:
            return make(self, shape, dtype)
        except RuntimeError:
            self.used = CAPACITY
            raise


@mutant("scarcity.every_verb")
def copies_without_memory_stay_where_they_were(backend: Any) -> None:
    """Where a copy does not fit, the source is the result: soft placement that goes too far."""
    copy = backend.copy_to

    @replace(backend)
    def copy_to(self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        try:
            return copy(self, x, device, non_blocking)
        except MemoryError:
            return x


def _take_float64_away(backend: Any) -> None:
    """Let the cards have no float64, and say so."""
    from mutants.cards import Card

    put_cards_into(backend)
    make, names = Card.empty, backend.dtypes_on

    @replace(Card)
    def empty(self: Any, shape: Any, dtype: Any) -> Any:
        if dtype == "float64":
            raise TypeError("the framework doesn't support float64. Please use float32 instead.")
        return make(self, shape, dtype)

    @replace(backend)
    def dtypes_on(self: Any, device: Any) -> Any:
        found = names(self, device)
        return found if device.kind == "cpu" else [name for name in found if name != "float64"]


@cards_mutant(
    "copy.values_bit_exact", "copy.disjoint_across_devices", "copy.dtype_kept",
    "copy.float64_and_int64_not_narrowed", "create.on_each_device", "create.from_another_tensor",
    "create.each_dtype_on_each_device", "errors.unsupported_dtype", "errors.dtypes_of_devices",
    "values.tensors_convert_as_lists_do",
    result="pass",
)  # fmt: skip
def cards_without_float64(backend: Any) -> None:
    """Nothing is broken: cards such as MPS, and some of XPU, which refuse a dtype."""
    _take_float64_away(backend)


@cards_mutant("errors.dtypes_of_devices")
def float64_is_narrowed_on_cards(backend: Any) -> None:
    """What a device lacks is replaced by the next smaller: ``jax_enable_x64`` left off."""
    import numpy as np

    _take_float64_away(backend)
    put = backend._on

    @replace(backend)
    def _on(self: Any, array: Any, device: Any) -> Any:
        wide = array.dtype == "float64" and device.kind == "gpu"
        return put(self, array.astype(np.float32) if wide else array, device)


@cards_mutant("errors.dtypes_of_devices")
def a_dtype_that_works_is_declared_missing(backend: Any) -> None:
    """A suite that asks which dtypes there are is told of those that are easy."""
    put_cards_into(backend)
    names = backend.dtypes_on

    @replace(backend)
    def dtypes_on(self: Any, device: Any) -> Any:
        return [name for name in names(self, device) if name != "float16"]


@cards_mutant("errors.dtypes_of_devices")
def a_missing_dtype_is_some_error(backend: Any) -> None:
    """The framework's own error, with no word of the device: TypeError from the backend itself."""
    _take_float64_away(backend)
    from unidev.calls import framework_errors

    replace_value(framework_errors, "_refused_dtype", lambda *_: None)


@mutant("queued.behind_queued_work")
def results_wait_for_nothing(backend: Any) -> None:
    """What is computed is there when it is read, and not when it is copied: two queues."""
    import numpy as np

    from unidev.numpy_backend import simulated_array

    compute, copy = simulated_array._on_one_device, backend.copy_to
    results: list[Any] = []

    def remember(function: Any, args: Any, options: Any, name: str) -> Any:
        results.append(compute(function, args, options, name))
        return results[-1]

    @replace(backend)
    def copy_to(self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        made = copy(self, x, device, non_blocking)
        if non_blocking and any(x is each for each in results):
            made.view(np.ndarray)[...] = 0
        return made

    replace_value(simulated_array, "_on_one_device", remember)
