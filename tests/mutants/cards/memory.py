"""Counters of memory that are wrong, and full cards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mutants.cards.hardware import cards_mutant, put_cards_into
from mutants.mutant import around, mutant, replace_value
from unidev.backends.numpy_backend.models import NumpyModels
from unidev.contract.memory import DriverMemory

if TYPE_CHECKING:
    from collections.abc import Callable


@cards_mutant("statistics.memory")
def free_is_what_the_driver_has_not_counted(backend):
    """Total less used, of two counters that do not fit together: a negative size."""
    put_cards_into(backend)
    read = backend.memory

    def memory(self, device):
        return read(self, device)._replace(free_bytes=-1)

    replace_value(backend, "memory", memory)


@cards_mutant("statistics.memory")
def memory_of_all_cards_is_used(backend):
    """One count for the process: ``memory_allocated()`` of a pool that serves all devices."""
    cards = put_cards_into(backend)
    read = backend.memory

    def memory(self, device):
        return read(self, device)._replace(used_bytes=sum(each.used for each in cards.all))

    replace_value(backend, "memory", memory)


def put_driver_into(backend: Any, *, hidden: int = 0) -> None:
    """Let ``memory`` come with a driver's count, of which ``hidden`` bytes are another process's.

    The framework, whose count has them free, does not see that process.
    """

    read = backend.memory

    def memory(self: Any, device: Any) -> Any:
        found = read(self, device)
        used, free = found.used_bytes + hidden, found.free_bytes - hidden
        return found.with_driver(DriverMemory(used, free, found.total_bytes, ()))

    replace_value(backend, "memory", memory)


@cards_mutant("cards.memory_is_the_drivers", profile="hardware")
def memory_of_other_processes_is_free(backend):
    """Total less what this process uses: a card that another one fills seems empty."""
    put_cards_into(backend)
    put_driver_into(backend, hidden=2**26)


@cards_mutant("cards.memory_is_the_drivers", profile="hardware")
def memory_counts_whole_pools(backend):
    """A pool that doubles: each tensor of 64 MiB is counted as 128."""
    cards = put_cards_into(backend)
    read = backend.memory

    def memory(self, device):
        used = 2 * cards.all[device.index].used if device.kind == "gpu" else 0
        return read(self, device)._replace(used_bytes=used)

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
def the_peak_is_not_reset(backend):
    """``track_memory`` shows the peak since the process began."""
    _break_peaks(backend, restart=lambda cards, device: None)


@cards_mutant("statistics.first_use")
def peaks_before_the_first_use_fail(backend):
    """``torch.cuda.reset_peak_memory_stats``: "Invalid device argument" until CUDA was used."""

    def restart(cards, device):
        card = cards.all[device.index]
        if not card.has_context:
            raise RuntimeError("Invalid device argument")
        card.peak = card.used

    _break_peaks(backend, restart=restart)


def _when_full(backend: Any, act: Callable[[Any], None]) -> None:
    """Call ``act(card)`` when something does not fit into a card, before its error is raised."""
    from mutants.cards.hardware import Card

    put_cards_into(backend)

    @around(Card)
    def empty(make: Any, self: Any, shape: Any, dtype: Any) -> Any:
        try:
            return make(self, shape, dtype)
        except RuntimeError:
            act(self)
            raise


@cards_mutant("scarcity.every_verb")
def a_full_card_is_some_error(backend):
    """An error that reads like no lack of memory: CUBLAS_STATUS_NOT_INITIALIZED."""

    def fail(card):
        raise RuntimeError("the handle is not initialized")

    _when_full(backend, fail)


@mutant("scarcity.every_verb", around="copy_to")
def copies_without_memory_stay_where_they_were(copy, self, x, device, non_blocking):
    """Where a copy does not fit, the source is the result: soft placement that goes too far."""
    try:
        return copy(self, x, device, non_blocking)
    except MemoryError:
        return x


@cards_mutant("failures.full_card", profile="train")
def full_cards_keep_what_fitted(backend):
    """Each part is exchanged as soon as it has a twin: ``Module.to`` that runs out of memory."""

    put_cards_into(backend)

    @around(NumpyModels)
    def twin(make, self, part, device):
        made = make(self, part, device)
        self.swap(part, made)
        return made
