"""Arrays of workers on several hosts, exchanged by messages of the launcher's channel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.parallel.exchange.parts import combined, parts_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unidev.parallel.messages.relay import Relay

    Array = np.ndarray[Any, Any]

_SMALL_BYTES = 1 << 16
"""As much goes through worker 0: fewer messages. More goes to each worker, a part of its own."""


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
        if own.nbytes <= _SMALL_BYTES:

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
        if own.nbytes <= _SMALL_BYTES:
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
        if own.nbytes * relay.size <= _SMALL_BYTES:
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
