"""Arrays of all workers on one host, exchanged in memory that they share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.parallel.exchange.parts import combined, parts_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from unidev.system.host.shared_memory import SharedMemory

    Array = np.ndarray[Any, Any]

_SMALL_BYTES = 1 << 17
"""All workers' bytes together: each adds up so few by itself sooner than all meet once more."""


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
            if piece.nbytes * size <= _SMALL_BYTES:
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
