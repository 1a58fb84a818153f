"""Collectives through the launcher's own channel, for what no framework's engine carries."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.contract.group_engine import GroupEngine
from unidev.distributed.messages.frames import EVERYBODY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unidev.contract.backend import Backend
    from unidev.contract.device import Device
    from unidev.contract.group_engine import Rendezvous
    from unidev.distributed.messages.channel import Channel

    Tensor = Any
    Array = np.ndarray[Any, Any]

_UFUNCS: dict[str, np.ufunc] = {"sum": np.add, "min": np.minimum, "max": np.maximum}


class _EveryName(frozenset[str]):
    """All dtypes but those that NumPy does not have."""

    def __contains__(self, name: object) -> bool:
        return name not in ("", "bfloat16")


_ALL = MappingProxyType(dict.fromkeys(("sum", "min", "max", "broadcast", "gather"), _EveryName()))


class HostEngine(GroupEngine):
    """By NumPy: rank 0 combines what the others send, in the order of ranks."""

    carries = _ALL
    gathered = MappingProxyType({})

    def __init__(self, backend: Backend, channel: Channel, rank: int, size: int) -> None:
        super().__init__(backend)
        self._channel = channel
        self._rank = rank
        self._size = size

    def join(self, rank: int, rendezvous: Rendezvous, device: Device) -> None:
        """The channel is there already."""

    def all_reduce(self, flat: Tensor, op: str) -> Tensor:
        """Combined by rank 0, in new memory."""
        mine = self._read(flat)
        there, back = self._channel.next_number(), self._channel.next_number()
        if self._rank:
            self._channel.post(0, there, _bytes(mine))
            return self._made(self._receive(0, back, mine), flat)
        for peer in range(1, self._size):
            _UFUNCS[op](mine, self._receive(peer, there, mine), out=mine)
        self._channel.post(EVERYBODY, back, _bytes(mine))
        return self._made(mine, flat)

    def broadcast(self, flat: Tensor, root: int) -> Tensor:
        """In new memory, except at ``root``."""
        number = self._channel.next_number()
        if self._rank == root:
            self._channel.post(EVERYBODY, number, _bytes(self._read(flat)))
            return flat
        like = self._read(flat)
        return self._made(self._receive(root, number, like), flat)

    def all_gather(self, flat: Tensor) -> Sequence[Tensor]:
        """In new memory."""
        mine = self._read(flat)
        number = self._channel.next_number()
        self._channel.post(EVERYBODY, number, _bytes(mine))
        arrays = (
            mine if peer == self._rank else self._receive(peer, number, mine)
            for peer in range(self._size)
        )
        return [self._made(array, flat) for array in arrays]

    def barrier(self) -> None:
        """Return when all have sent something."""
        number = self._channel.next_number()
        self._channel.post(EVERYBODY, number, b"")
        for peer in range(self._size):
            if peer != self._rank:
                self._channel.receive(peer, number)

    def leave(self) -> None:
        """The channel stays."""

    def _read(self, flat: Tensor) -> Array:
        return np.asarray(self.backend.to_numpy(flat), order="C")

    def _receive(self, peer: int, number: int, like: Array) -> Array:
        found: Array = np.frombuffer(self._channel.receive(peer, number), like.dtype)
        shaped: Array = found.reshape(like.shape)
        return shaped

    def _made(self, array: Array, like: Tensor) -> Tensor:
        return self.backend.from_numpy(array, like.dtype, self.backend.device_of(like))


class SingleWorkerEngine(GroupEngine):
    """A group of one: what it has is the result."""

    carries = _ALL
    gathered = MappingProxyType({})

    def join(self, rank: int, rendezvous: Rendezvous, device: Device) -> None:
        """There is no other."""

    def all_reduce(self, flat: Tensor, op: str) -> Tensor:  # noqa: ARG002  of one
        """``flat`` itself."""
        return flat

    def broadcast(self, flat: Tensor, root: int) -> Tensor:  # noqa: ARG002  of one
        """``flat`` itself."""
        return flat

    def all_gather(self, flat: Tensor) -> Sequence[Tensor]:
        """A copy."""
        return [self.backend.copy_to(flat, self.backend.device_of(flat), False)]

    def barrier(self) -> None:
        """There is no other."""

    def leave(self) -> None:
        """There is no other."""


def _bytes(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)
