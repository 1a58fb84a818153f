"""Waiting for workers that come late, which Paddle's own engine does for 3 or 30 seconds."""

from __future__ import annotations

import mmap
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from unidev_paddle.framework import core

if TYPE_CHECKING:
    from unidev.contract import Rendezvous

_KEY = "unidev/arrived"
_BYTES = 8
_NEVER = 1 << 62
"""The count of a worker that does not come any more."""
_SHARE, _SHORTEST_S, _LONGEST_S = 1 / 16, 5e-5, 2e-3
"""Between two looks a worker sleeps for a share of the time waited, so that little of it is lost.
The others may still compute: it leaves them the cores."""


class Arrivals:
    """Counts exchanges of each worker, and waits for the others before each.

    Paddle's gloo gives up after 30 seconds, which cannot be changed; a worker may well be a minute
    late.
    """

    def __init__(self, rank: int, rendezvous: Rendezvous) -> None:
        self._size = rendezvous.size
        self._timeout_s = rendezvous.timeout_s
        self._number = 0
        if rendezvous.folder is None:
            self._counts: _InStore | _InFile = _InStore()
        else:
            self._counts = _InFile(rank, rendezvous.size, rendezvous.folder / "arrivals")

    def await_all(self) -> None:
        """Return once all workers have come to this exchange.

        Raises:
            TimeoutError: one has not within the time of the run.
            ConnectionError: one does not come any more.
        """
        self._number += 1
        self._counts.come(self._number)
        expected = self._number * self._size
        start = time.monotonic()
        while not expected <= (come := self._counts.total(self._number)) < _NEVER:
            if come >= _NEVER:
                raise ConnectionError("a worker has left an exchange early")
            waited = time.monotonic() - start
            time.sleep(min(max(waited * _SHARE, _SHORTEST_S), _LONGEST_S))
            if waited > self._timeout_s:
                missing = expected - come
                raise TimeoutError(
                    f"{missing} of {self._size} workers did not come to the exchange within "
                    f"{self._timeout_s:g} s"
                )

    def give_up(self) -> None:
        """Let the others raise that wait for this worker."""
        self._counts.give_up()


class _InFile:
    """On one machine: a number for each worker in a file that all have mapped."""

    def __init__(self, rank: int, size: int, path: Path) -> None:
        with path.open("ab") as file:
            file.truncate(size * _BYTES)  # by whoever comes first: the new bytes are zeros
        with path.open("r+b") as file:
            self._cells = memoryview(mmap.mmap(file.fileno(), size * _BYTES)).cast("Q")
        self._rank = rank

    def come(self, number: int) -> None:
        self._cells[self._rank] = number

    def give_up(self) -> None:
        self.come(_NEVER)

    def total(self, number: int) -> int:
        """As if none had gone on to the next exchange."""
        return sum(count if count == _NEVER else min(count, number) for count in self._cells)


class _InStore:
    """Between machines: one sum in the group's store, which never forgets a key."""

    def __init__(self) -> None:
        self._store = core.create_or_get_global_tcp_store()

    def come(self, number: int) -> None:  # noqa: ARG002
        self._store.add(_KEY, 1)

    def give_up(self) -> None:
        self._store.add(_KEY, _NEVER)

    def total(self, number: int) -> int:  # noqa: ARG002
        """None goes on before all have come, so the sum is that of this exchange."""
        return int(self._store.add(_KEY, 0))


def wait_for_listener(rendezvous: Rendezvous) -> None:
    """Wait until the store of rank 0 listens: else Paddle waits for 3 seconds before it retries.

    Where this cannot be looked up, on another host or platform, returns at once.
    """
    if rendezvous.folder is None or sys.platform != "linux":
        return
    end = time.monotonic() + rendezvous.timeout_s
    while not _listens(rendezvous.ports[0]) and time.monotonic() < end:
        time.sleep(0.005)


def _listens(port: int) -> bool:
    """Whether a socket of this machine listens on ``port``."""
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        if not table.exists():
            continue
        for line in table.read_text().splitlines()[1:]:
            _, local, _, state, *_ = line.split()
            if state == "0A" and int(local.rpartition(":")[2], 16) == port:
                return True
    return False
