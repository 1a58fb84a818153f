"""Exchanges without an engine: threads in place of workers, and what ``run`` is given."""

from __future__ import annotations

import os
import signal
import threading
from queue import Queue
from typing import TYPE_CHECKING, Any

import unidev
from unidev.parallel.exchange import host_engine
from unidev.parallel.exchange.host_engine import MemoryCarrier, MessageCarrier
from unidev.parallel.messages.relay import Relay
from unidev.system.host.frames import EVERYBODY
from unidev.system.host.shared_memory import SharedMemory, files_for

if TYPE_CHECKING:
    from collections.abc import Callable

HANG_S = 300
"""After which a test fails that would hang."""


class ThreadsChannel:
    """A worker's channel whose messages arrive at once."""

    def __init__(self, rank: int, all_channels: list[ThreadsChannel]) -> None:
        self.rank = rank
        self._all = all_channels
        self._number = 0
        self._arrived: dict[tuple[int, int], Queue[bytearray]] = {}
        self._making = threading.Lock()

    def next_number(self) -> int:
        self._number += 1
        return self._number

    def post(self, peer: int, number: int, *pieces: Any) -> None:
        body = b"".join(memoryview(piece).cast("B") for piece in pieces)
        peers = range(len(self._all)) if peer == EVERYBODY else [peer]
        for each in peers:
            if each != self.rank:
                self._all[each].arrived(self.rank, number).put(bytearray(body))

    def receive(self, peer: int, number: int) -> bytearray:
        return self.arrived(peer, number).get(timeout=HANG_S)

    def arrived(self, peer: int, number: int) -> Queue[bytearray]:
        with self._making:
            return self._arrived.setdefault((peer, number), Queue())


def by_messages(size: int) -> list[Any]:
    """A carrier for each worker."""
    channels: list[ThreadsChannel] = []
    channels += [ThreadsChannel(rank, channels) for rank in range(size)]
    return [
        MessageCarrier(Relay(channel, channel.rank, size))  # type: ignore[arg-type]
        for channel in channels
    ]


def by_memory(size: int) -> list[Any]:
    """A carrier for each worker."""
    with files_for(size) as files:
        copies = [[os.dup(file) for file in files] for _ in range(size)]
    return [MemoryCarrier(SharedMemory(own, rank, size)) for rank, own in enumerate(copies)]


def together(carriers: list[Any], work: Callable[[Any, int], Any]) -> list[Any]:
    """What ``work(carrier, rank)`` returns in each of as many threads."""
    found: list[Any] = [None] * len(carriers)

    def one(rank: int) -> None:
        found[rank] = work(carriers[rank], rank)

    threads = [
        threading.Thread(target=one, args=[rank], daemon=True) for rank in range(len(carriers))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_S)
    assert not any(thread.is_alive() for thread in threads), "they wait for one another"
    return found


# -- functions of workers ------

SENT_BYTES = 400_000


def killed_within_an_exchange() -> None:
    """Worker 1 ends where the others have written and wait for the part that it combines."""

    def killed(*_: Any) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)

    if unidev.group().rank == 1:
        host_engine.combined = killed
    unidev.group().all_reduce(unidev.ones(SENT_BYTES // 4))


def sent_by_channel() -> int:
    """The bytes that this worker writes to its channel in one ``all_reduce``."""
    from unidev.system.host.frames import WholeWriter, pieces_of

    written: list[int] = []
    write = WholeWriter.write

    def counting(writer: WholeWriter, frame: Any) -> None:
        written.append(sum(piece.nbytes for piece in pieces_of(frame)))
        write(writer, frame)

    WholeWriter.write = counting  # type: ignore[method-assign]
    total = unidev.group().all_reduce(unidev.ones(SENT_BYTES // 4))
    WholeWriter.write = write  # type: ignore[method-assign]
    assert set(unidev.to_numpy(total).tolist()) == {float(unidev.group().size)}
    return sum(written)
