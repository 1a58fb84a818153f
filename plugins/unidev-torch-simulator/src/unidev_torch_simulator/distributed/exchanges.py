"""The groups of gloo in which a backend's ranks exchange host memory, made when first used.

As NCCL makes its communicators: one of all ranks at the first collective, at the first batch of
transfers, or at once where the program names its device; and one of two ranks at the first
transfer between them outside a batch.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from torch._C import _distributed_c10d

if TYPE_CHECKING:
    from datetime import timedelta

c10d: Any = _distributed_c10d
_KEY = "unidev/exchange"


class Exchanges:
    """Those of one rank of ``size``, found by the other ranks in ``store``."""

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        self._store = store
        self._rank = rank
        self._size = size
        self._timeout = timeout
        self._made: dict[int | None, Any] = {}
        self._lock = threading.Lock()
        self.is_eager = False
        """Whether all ranks met before the first collective: transfers need no pair then."""

    def with_rank(self, peer: int | None) -> Any:
        """The group of this rank and ``peer``, or of all; it blocks until they have come.

        Raises:
            RuntimeError: one has not come within the timeout.
        """
        with self._lock:
            if peer not in self._made:
                self._made[peer] = self._meet(peer)
            return self._made[peer]

    def rank_in(self, peer: int | None, rank: int) -> int:
        """The number that ``rank`` has in the group of this rank and ``peer``, or of all."""
        return rank if peer is None else int(rank > min(self._rank, peer))

    def _meet(self, peer: int | None) -> Any:
        if peer is None:
            members, name = [*range(self._size)], "all"
        else:
            members = sorted((self._rank, peer))
            name = f"{members[0]}:{members[1]}"
        store = c10d.PrefixStore(f"{_KEY}/{name}/", self._store)
        return c10d.ProcessGroupGloo(
            store, self.rank_in(peer, self._rank), len(members), timeout=self._timeout
        )

    def set_timeout(self, timeout: timedelta) -> None:
        """Set the limit of those that are made, and of later ones."""
        self._timeout = timeout
        for each in self._made.values():
            each._set_default_timeout(timeout)

    def shutdown(self) -> None:
        """Shut down what is made."""
        for each in self._made.values():
            each.shutdown()

    def abort(self) -> None:
        """End what is under way, with an error."""
        for each in self._made.values():
            each.abort()
