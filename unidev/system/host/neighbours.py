"""Memory shared by processes of one host that were started side by side: by torchrun, by Ray.

The first makes it. The others open it by the system's list of the first one's open files, which
only processes of its user can read: it has no name anywhere that a stranger could come upon.
"""

from __future__ import annotations

import json
import math
import os
import select
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from unidev.errors import CollectiveError
from unidev.system.host.board import Board, board_bytes
from unidev.system.host.shared_memory import SharedMemory, files_for
from unidev.system.wording import seconds_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from unidev.system.host.board import Mark

    Offer = Sequence[tuple[int, Sequence[int]]]

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACES = "net", "pid", "user"  # a host of its own network is one of its own


class Shared(NamedTuple):
    """One process's part of it."""

    memory: SharedMemory
    mark: Mark
    watch: Watch
    files: ExitStack
    """Open as long as this process lives."""


class Watch:
    """The other processes, by rank, whose ends nobody else reports."""

    def __init__(self, others: Mapping[int, int], timeout_s: float) -> None:
        self._others = others
        """Files that can be read once the process has ended."""
        self._timeout_s = timeout_s
        self._ends = self._poller()

    def ended(self) -> int | None:
        """The rank of a process that has ended; None if none has."""
        ready = {file for file, _ in self._ends.poll(0)}
        return next((rank for rank, file in self._others.items() if file in ready), None)

    def wait(self, pipe: int) -> None:
        """Return once ``pipe`` can be read; CollectiveError if a process ends, or time is over."""
        poller = self._poller(pipe)
        most_ms = None if self._timeout_s == math.inf else 1000 * self._timeout_s
        ready = {file for file, _ in poller.poll(most_ms)}
        if pipe in ready:
            return
        if not ready:
            raise CollectiveError(f"no worker has answered for {seconds_text(self._timeout_s)}.")
        if all(file != pipe for file, _ in poller.poll(0)):  # else written before that end
            raise CollectiveError(f"worker {self.ended()} has ended in a collective.")

    def _poller(self, *more: int) -> select.poll:
        poller = select.poll()
        for file in (*more, *self._others.values()):
            poller.register(file, select.POLLIN)
        return poller


def shared_by_all(
    gathered: Callable[[bytes], Sequence[bytes]], rank: int, size: int, timeout_s: float
) -> Shared | None:
    """The memory of all ``size`` processes; None if they are not of one host, user and namespaces.

    ``gathered`` gives what each has passed to it, by rank, on all, who call this together.
    """
    with ExitStack() as scope:
        *places, numbers = zip(*map(json.loads, gathered(_place())), strict=True)
        is_one = all(len({*each}) == 1 for each in places) and all(numbers)
        if not is_one:
            return None
        files = list[int]()
        if rank == 0:
            with suppress(OSError):
                files = _made(size, scope)
        offer = json.loads(gathered(json.dumps([(x, _mark_of(x)) for x in files]).encode())[0])
        watched = dict[int, int]()
        if offer:
            with suppress(OSError):
                files = files or _opened(offer, numbers[0], scope)
                for other in {*range(size)} - {rank}:
                    watched[other] = os.pidfd_open(numbers[other])
                    scope.callback(os.close, watched[other])
        is_whole = len(watched) == size - 1
        if not all(gathered(b"whole" if is_whole else b"")):
            return None
        kept = scope.pop_all()
    board, *others = files
    watch = Watch(watched, timeout_s)
    mark = Board(board, size).mark(rank, timeout_s)
    return Shared(SharedMemory(others, rank, size, watch.wait), mark, watch, kept)


def _place() -> bytes:
    """The host, its start, the namespaces and the user; last this process's number, 0 if none."""
    found = ["", *_NAMESPACES, "", 0]
    if sys.platform == "linux" and hasattr(os, "pidfd_open"):
        with suppress(OSError):
            spaces = [os.readlink(f"/proc/self/ns/{name}") for name in _NAMESPACES]
            found = [_BOOT.read_text(), *spaces, str(os.getuid()), os.getpid()]
    return json.dumps(found).encode()


def _made(size: int, scope: ExitStack) -> list[int]:
    """The file of the board, and those of ``files_for``; none if there is no such memory."""
    shared = scope.enter_context(files_for(size))
    if not shared:
        return []
    board = os.memfd_create("unidev")
    scope.callback(os.close, board)
    os.ftruncate(board, board_bytes(size))
    return [board, *shared]


def _mark_of(file: int | str) -> list[int]:
    status = os.stat(file)
    return [status.st_dev, status.st_ino]


def _opened(offer: Offer, process: int, scope: ExitStack) -> list[int]:
    """The same files, here.

    Raises:
        OSError: that process's files are not these, or cannot be opened by this one.
    """
    found = []
    for number, mark in offer:
        path = f"/proc/{process}/fd/{number}"
        if _mark_of(path) != mark:  # before it is opened, which may do something
            raise FileNotFoundError(path)
        mode = os.lstat(path).st_mode  # as that process has it open
        readable, writable = mode & 0o400, mode & 0o200
        flags = os.O_RDWR if readable and writable else os.O_WRONLY if writable else os.O_RDONLY
        found.append(os.open(path, flags))
        scope.callback(os.close, found[-1])
    return found
