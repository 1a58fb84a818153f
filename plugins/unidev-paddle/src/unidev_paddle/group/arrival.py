"""Waiting for workers that come late, which Paddle's own engine does for 3 or 30 seconds."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from unidev_paddle.framework import core

if TYPE_CHECKING:
    from unidev.contract import Meeting

_KEY = "unidev/arrived"
_FIRST_S, _LONGEST_S = 5e-5, 5e-3
"""Between two looks: short at first, since the others mostly come at once."""


class Arrivals:
    """Counts workers in the group's store before each exchange.

    Paddle's gloo gives up after 30 seconds, which cannot be changed; a worker may well be a minute
    late. A count for all, not a key for each exchange: the store never forgets one.
    """

    def __init__(self, meeting: Meeting) -> None:
        self._store = core.create_or_get_global_tcp_store()
        self._size = meeting.size
        self._timeout_s = meeting.timeout_s
        self._expected = 0

    def await_all(self) -> None:
        """Return once all workers have come to this exchange.

        Raises:
            TimeoutError: one has not within the time of the run.
        """
        self._expected += self._size
        arrived = self._store.add(_KEY, 1)
        pause, end = _FIRST_S, time.monotonic() + self._timeout_s
        while arrived < self._expected:
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_S)
            arrived = self._store.add(_KEY, 0)
            if time.monotonic() > end:
                missing = min(self._expected - arrived, self._size)
                raise TimeoutError(
                    f"{missing} of {self._size} workers did not come to the exchange within "
                    f"{self._timeout_s:g} s"
                )


def wait_for_listener(meeting: Meeting) -> None:
    """Wait until the store of rank 0 listens: else Paddle waits for 3 seconds before it retries.

    Where this cannot be looked up, on another host or platform, returns at once.
    """
    if meeting.folder is None or sys.platform != "linux":
        return
    end = time.monotonic() + meeting.timeout_s
    while not _listens(meeting.ports[0]) and time.monotonic() < end:
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
