"""Collectives through the launcher's own channel, for what no framework's engine carries."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.contract.group_engine import GroupEngine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unidev.contract.backend import Backend
    from unidev.contract.device import Device
    from unidev.contract.group_engine import Rendezvous
    from unidev.distributed.messages.relay import Relay

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

    def __init__(self, backend: Backend, relay: Relay, rank: int) -> None:
        super().__init__(backend)
        self._relay = relay
        self._rank = rank

    def join(self, rank: int, rendezvous: Rendezvous, device: Device) -> None:
        """The channel is there already."""

    def all_reduce(self, flat: Tensor, op: str) -> Tensor:
        """Combined by rank 0, in new memory."""
        mine = self._read(flat)

        def combined(parts: Sequence[Any]) -> Sequence[Any]:
            for part in parts[1:]:
                _UFUNCS[op](mine, _array(part, mine), out=mine)
            return [_bytes(mine)]

        return self._made(self._relay.exchange(_bytes(mine), combined), mine, flat)

    def broadcast(self, flat: Tensor, root: int) -> Tensor:
        """In new memory, except at ``root``."""
        mine = self._read(flat)
        part = _bytes(mine) if self._rank == root else b""
        found = self._relay.exchange(part, lambda parts: [parts[root]])
        return flat if self._rank == root else self._made(found, mine, flat)

    def all_gather(self, flat: Tensor) -> Sequence[Tensor]:
        """In new memory."""
        mine = self._read(flat)
        found = memoryview(self._relay.exchange(_bytes(mine), lambda parts: parts))
        starts = range(0, found.nbytes, mine.nbytes)
        return [self._made(found[at : at + mine.nbytes], mine, flat) for at in starts]

    def barrier(self) -> None:
        """Return when all have sent something."""
        self._relay.exchange(b"", lambda parts: parts[:1])

    def leave(self) -> None:
        """The channel stays."""

    def _read(self, flat: Tensor) -> Array:
        return np.asarray(self.backend.to_numpy(flat), order="C")

    def _made(self, found: Any, array: Array, like: Tensor) -> Tensor:
        """The bytes ``found`` as ``array`` has them, in a tensor like ``like``."""
        shaped = _array(found, array)
        return self.backend.from_numpy(shaped, like.dtype, self.backend.device_of(like))


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


def _array(found: Any, like: Array) -> Array:
    shaped: Array = np.frombuffer(found, like.dtype).reshape(like.shape)
    return shaped
