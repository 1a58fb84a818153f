"""Collectives of the host's own, for what no framework's engine carries: by memory, or messages."""

from __future__ import annotations

from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.contract.dtypes import portable_name
from unidev.contract.group_engine import GroupEngine

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from unidev.contract.backend import Backend
    from unidev.contract.group_engine import Rendezvous
    from unidev.device import Device
    from unidev.parallel.messages.relay import Relay
    from unidev.system.host.shared_memory import SharedMemory

    Tensor = Any
    Array = np.ndarray[Any, Any]

_UFUNCS: dict[str, np.ufunc] = {"sum": np.add, "min": np.minimum, "max": np.maximum}
_SMALL_IN_MEMORY = 1 << 17
"""All workers' bytes together: each adds up so few by itself sooner than all meet once more."""
_PAIR = 2
"""Two workers read and write as many bytes if each adds up all of them, and meet once less."""
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
            if size == _PAIR or piece.nbytes * size <= _SMALL_IN_MEMORY:
                ufunc(slots[0], slots[1], out=piece)  # not `combined`, which makes new memory
                for slot in slots[2:]:
                    ufunc(piece, slot, out=piece)
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


class _EveryName(frozenset[str]):
    """All dtypes but those that NumPy does not have."""

    def __contains__(self, name: object) -> bool:
        return name not in ("", "bfloat16")


class _OwnEngine(GroupEngine):
    """An engine of ours: what it needs is there as long as the run."""

    carries = MappingProxyType(
        dict.fromkeys(("sum", "min", "max", "broadcast", "gather"), _EveryName())
    )
    gathered = MappingProxyType({})

    def join(self, rank: int, rendezvous: Rendezvous, device: Device) -> None:
        """There is nothing to join."""

    def leave(self) -> None:
        """There is nothing to leave."""


class HostEngine(_OwnEngine):
    """By NumPy: each worker combines a part of what all have, in the order of ranks.

    On one host the arrays are exchanged in memory that the workers share, else by the channel.
    """

    def __init__(
        self, backend: Backend, carrier: MemoryCarrier | MessageCarrier, rank: int
    ) -> None:
        super().__init__(backend)
        self._rank = rank
        self._carrier = carrier

    def all_reduce(self, flat: Tensor, op: str) -> Tensor:
        """In new memory."""
        own = self._read(flat)
        self._carrier.all_reduce(own.reshape(-1), _UFUNCS[op])
        return self._made(own, flat)

    def broadcast(self, flat: Tensor, root: int) -> Tensor:
        """In new memory, except at ``root``."""
        if self._rank == root:
            self._carrier.broadcast(self._read(flat).reshape(-1), root)
            return flat
        found = np.empty(tuple(flat.shape), portable_name(flat.dtype, self.backend))
        self._carrier.broadcast(found.reshape(-1), root)
        return self._made(found, flat)

    def all_gather(self, flat: Tensor) -> Sequence[Tensor]:
        """In new memory."""
        own = self._read(flat)
        found = self._carrier.all_gather(own.reshape(-1))
        return [self._made(each.reshape(own.shape), flat) for each in found]

    def _read(self, flat: Tensor) -> Array:
        """The values in memory that may be written to, in the order of C."""
        return np.asarray(self.backend.to_numpy(flat), order="C")

    def _made(self, array: Array, like: Tensor) -> Tensor:
        """The values of ``array`` in a tensor like ``like``."""
        return self.backend.from_numpy(array, like.dtype, self.backend.device_of(like))


class SingleWorkerEngine(_OwnEngine):
    """A group of one: what it has is the result."""

    def all_reduce(self, flat: Tensor, op: str) -> Tensor:  # noqa: ARG002  of one
        """``flat`` itself."""
        return flat

    def broadcast(self, flat: Tensor, root: int) -> Tensor:  # noqa: ARG002  of one
        """``flat`` itself."""
        return flat

    def all_gather(self, flat: Tensor) -> Sequence[Tensor]:
        """A copy."""
        return [self.backend.copy_to(flat, self.backend.device_of(flat), False)]
