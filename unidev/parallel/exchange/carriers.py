"""Arrays of all workers exchanged without an engine: in memory that they share, or by messages."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from unidev.parallel.messages.relay import Relay
    from unidev.system.host.shared_memory import SharedMemory

    Array = np.ndarray[Any, Any]

_SMALL_IN_MEMORY = 1 << 17
"""All workers' bytes together: each adds up so few by itself sooner than all meet once more."""
_SMALL_MESSAGE = 1 << 16
"""As much goes through worker 0: fewer messages. More goes to each worker, a part of its own."""


class MemoryCarrier:
    """Flat arrays, piece by piece; no worker reads or writes more than three times their length."""

    def __init__(self, memory: SharedMemory) -> None:
        self._memory = memory

    def all_reduce(self, own: Array, ufunc: np.ufunc) -> None:
        """Write to ``own`` what all have, combined in the order of ranks."""
        rank, size = self._memory.rank, self._memory.size
        for piece, slots in self._pieces(own):
            slots[rank][:] = piece
            self._memory.meet()
            if piece.nbytes * size <= _SMALL_IN_MEMORY:
                piece[:] = combined(slots, ufunc)
                continue
            parts = parts_of(piece.size, size)
            slots[rank][parts[rank]] = combined([slot[parts[rank]] for slot in slots], ufunc)
            self._memory.meet()
            for slot, part in zip(slots, parts, strict=True):
                piece[part] = slot[part]

    def broadcast(self, own: Array, root: int) -> None:
        """Write to ``own`` what the worker ``root`` has."""
        is_root = self._memory.rank == root
        for piece, slots in self._pieces(own):
            if is_root:
                slots[root][:] = piece
            self._memory.meet()
            if not is_root:
                piece[:] = slots[root]

    def all_gather(self, own: Array) -> Sequence[Array]:
        """What each worker has, by rank; in the shared memory until the next exchange, if small."""
        size, start = self._memory.size, 0
        is_small = own.nbytes <= self._memory.slot_bytes
        found = [] if is_small else [np.empty_like(own) for _ in range(size)]
        for piece, slots in self._pieces(own):
            slots[self._memory.rank][:] = piece
            self._memory.meet()
            if is_small:
                return slots
            for each, slot in zip(found, slots, strict=True):
                each[start : start + piece.size] = slot
            start += piece.size
        return found

    def barrier(self) -> None:
        """Return when all have come."""
        self._memory.meet()

    def _pieces(self, own: Array) -> Iterator[tuple[Array, list[Array]]]:
        """What of ``own`` fits into a slot, with such an array in the slot of each worker."""
        most = self._memory.slot_bytes // own.itemsize
        for start in range(0, own.size, most):
            piece = own[start : start + most]
            yield (
                piece,
                [np.frombuffer(slot, own.dtype, piece.size) for slot in self._memory.slots()],
            )


class MessageCarrier:
    """Flat arrays, small ones in two messages of each worker, large ones without a bottleneck.

    The codes of what the workers are about to do go through worker 0 in any case, so that those
    that differ find out by the same messages.
    """

    def __init__(self, relay: Relay) -> None:
        self._relay = relay

    def all_reduce(self, own: Array, ufunc: np.ufunc) -> None:
        """Write to ``own`` what all have, combined in the order of ranks."""
        relay = self._relay
        if own.nbytes <= _SMALL_MESSAGE:

            def total(parts: Sequence[Any]) -> Sequence[Any]:
                return [_bytes(combined([_array(part, own) for part in parts], ufunc))]

            own[:] = _array(relay.exchange(_bytes(own), total), own)
            return
        relay.confirm()
        parts = parts_of(own.size, relay.size)
        mine = own[parts[relay.rank]]
        theirs = relay.scattered([_bytes(own[part]) for part in parts])
        mine[:] = combined([_array(each, own) for each in theirs], ufunc)
        for part, each in zip(parts, relay.gathered(_bytes(mine)), strict=True):
            own[part] = _array(each, own)

    def broadcast(self, own: Array, root: int) -> None:
        """Write to ``own`` what the worker ``root`` has."""
        relay, is_root = self._relay, self._relay.rank == root
        if own.nbytes <= _SMALL_MESSAGE:
            given = _bytes(own) if is_root else b""
            found = relay.exchange(given, lambda parts: [parts[root]])
        else:
            relay.confirm()
            found = relay.spread(_bytes(own), root)
        if not is_root:
            own[:] = _array(found, own)

    def all_gather(self, own: Array) -> Sequence[Array]:
        """What each worker has, by rank."""
        relay = self._relay
        if own.nbytes * relay.size <= _SMALL_MESSAGE:
            whole = _array(relay.exchange(_bytes(own), lambda parts: parts), own)
            return np.split(whole, relay.size)
        relay.confirm()
        return [_array(each, own) for each in relay.gathered(_bytes(own))]

    def barrier(self) -> None:
        """Return when all have come."""
        self._relay.exchange(b"", lambda parts: parts[:1])


def _bytes(array: Array) -> Array:
    return array.view(np.uint8)


def _array(found: Any, like: Array) -> Array:
    return np.frombuffer(found, like.dtype)


def parts_of(count: int, size: int) -> list[slice]:
    """The part of so many elements that each of ``size`` workers combines, by rank."""
    ends = [count * rank // size for rank in range(size + 1)]
    return [slice(start, end) for start, end in pairwise(ends)]


def combined(arrays: Sequence[Array], ufunc: np.ufunc) -> Array:
    """All arrays as one, in new memory, in the order given: that of ranks, whoever came first."""
    total: Array = arrays[0].copy()
    for other in arrays[1:]:
        ufunc(total, other, out=total)
    return total
