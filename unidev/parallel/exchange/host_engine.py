"""Collectives of the host's own, for what no framework's engine carries."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.contract.dtypes import portable_name
from unidev.contract.group_engine import GroupEngine
from unidev.parallel.exchange.carriers import MemoryCarrier, MessageCarrier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unidev.contract.backend import Backend
    from unidev.contract.group_engine import Rendezvous
    from unidev.device import Device
    from unidev.parallel.messages.relay import Relay

    Tensor = Any
    Array = np.ndarray[Any, Any]

_UFUNCS: dict[str, np.ufunc] = {"sum": np.add, "min": np.minimum, "max": np.maximum}


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

    def __init__(self, backend: Backend, relay: Relay, rank: int) -> None:
        super().__init__(backend)
        self._rank = rank
        self._carrier = (
            MessageCarrier(relay) if relay.memory is None else MemoryCarrier(relay.memory)
        )

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

    def barrier(self) -> None:
        """Return when all have come."""
        self._carrier.barrier()

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

    def barrier(self) -> None:
        """There is no other."""
