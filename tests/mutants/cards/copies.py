"""Copies between cards and the host that are queued, pinned or waited for in a wrong way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mutants.cards.hardware import cards_mutant, plain, put_cards_into
from mutants.mutant import around, replace, replace_value

if TYPE_CHECKING:
    from collections.abc import Callable


@cards_mutant("queued.read_at_once", "queued.synchronized")
def copies_to_the_host_are_pending(backend):
    """``x.to("cpu", non_blocking=True)``: what reads host memory does not wait for the GPU."""

    cards = put_cards_into(backend)

    @around(backend)
    def copy_to(copy, self, x, device, non_blocking):
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

    @around(backend)
    def copy_to(copy: Any, self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
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
def sources_are_not_recorded_in_side_streams(backend):
    """``record_stream`` is missing: the allocator knows of the stream that made a tensor alone."""
    _copy_by_address(backend, lambda cards, source: cards.stream(source) or None)


@cards_mutant("queued.source_dropped_at_once")
def copies_have_a_stream_of_their_own(backend):
    """A stream for copies, of which the allocator of their sources does not know."""
    _copy_by_address(backend, lambda cards, source: -1)


@cards_mutant("queued.source_changed_at_once")
def pinned_sources_are_read_later(backend):
    """``pin_memory`` and ``non_blocking``, as every tutorial has it: the copy goes on reading."""
    cards = put_cards_into(backend)
    copy, pin = backend.copy_to, backend.pinned
    kept: list[Any] = []

    @replace(backend)
    def copy_to(self, x, device, non_blocking):
        made = copy(self, x, device, non_blocking)
        target = cards.of(device)
        if target is not None and non_blocking and any(x is each for each in kept):
            to = plain(made)
            target.queues[cards.stream(target)].append(lambda: to.__setitem__(..., x))
        return made

    @replace(backend)
    def pinned(self, x):
        kept.append(pin(self, x))
        return kept[-1]


@cards_mutant("pinned.copies")
def pinning_locks_the_users_own_memory(backend):
    """``cudaHostRegister``: no copy, so writing to the batch changes what is being transferred."""
    put_cards_into(backend)
    replace_value(backend, "pinned", lambda self, x: x.view())


@cards_mutant("pinned.pinned_once")
def pinning_always_copies(backend):
    """A loader that pins already makes another pinned copy of each batch."""
    put_cards_into(backend)
    replace_value(backend, "pinned", lambda self, x: x.copy())


@cards_mutant("queued.side_stream")
def synchronize_waits_for_the_usual_stream(backend):
    """Other streams of the device go on: ``torch.cuda.default_stream().synchronize()``."""
    cards = put_cards_into(backend)

    @replace(backend)
    def synchronize(self, device):
        card = cards.of(device)
        if card is not None:
            card.flush(0)
