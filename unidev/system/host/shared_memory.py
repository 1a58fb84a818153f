"""Memory that the workers of one host share, with a slot for each, and the places where they meet.

A worker writes to its slot, all meet, and then they read one another's. They meet by pipes, not by
numbers in the memory itself: a pipe wakes who waits, and it orders what was written before on every
processor.
"""

from __future__ import annotations

import mmap
import os
import select
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from unidev.errors import CollectiveError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_PAGE = 4096
_MOST_BYTES, _LEAST_SLOT, _MOST_SLOT = 64 << 20, 16 * _PAGE, 4 << 20
"""The most bytes of all slots together, and the least and the most of each.

The system provides only the pages that are written to.
"""
_SIDES = 2
"""Slots of each worker: while one is read, what comes next is written to the other."""
_WAYS_OUT = 2
"""Pipes from worker 0, in turn: a worker may come to the next meeting while another has not left
the last one, and must not take its byte."""
_NEVER = b"\1"
"""In place of a worker's byte: it does not come any more."""
_FILES = 3 + 2 * _WAYS_OUT
"""The memory, and the ends of the pipes to worker 0 and from it."""


@contextmanager
def files_for(count: int) -> Iterator[tuple[int, ...]]:
    """Open files for so many workers to inherit; none where there is no such memory to share.

    Then tensors travel by the channel: in a sandbox, or within a limit on the length of files.
    """
    found: list[int] = []
    try:
        if count > 1:
            with suppress(OSError):
                _make(count, found)
        yield tuple(found) if len(found) == _FILES else ()
    finally:
        for file in found:
            os.close(file)


def _make(count: int, found: list[int]) -> None:
    """Open the files one by one, as far as the system lets it."""
    import resource

    # A file on a disk would do as well, but not if the disk is full: that ends who writes to it.
    length = _SIDES * count * slot_bytes(count)
    most, _ = resource.getrlimit(resource.RLIMIT_FSIZE)  # beyond it, SIGXFSZ may end this process
    if hasattr(os, "memfd_create") and (most == resource.RLIM_INFINITY or length <= most):
        found.append(os.memfd_create("unidev"))
        os.ftruncate(found[0], length)
        for _ in range(1 + _WAYS_OUT):
            found += os.pipe()


def slot_bytes(count: int) -> int:
    """The length of a slot, if there are so many workers."""
    share = _MOST_BYTES // (_SIDES * count) // _PAGE * _PAGE
    return min(max(share, _LEAST_SLOT), _MOST_SLOT)


class SharedMemory:
    """One worker's view of that memory, and of the others in it."""

    def __init__(
        self, files: Sequence[int], rank: int, size: int, wait: Callable[[int], None] | None = None
    ) -> None:
        """``wait`` returns once a pipe can be read; None: others report ends."""
        memory, self._arrived, self._arrive, *ways_out = files
        self.rank = rank
        self.size = size
        self._memory = memoryview(mmap.mmap(memory, 0))
        self.slot_bytes = len(self._memory) // (_SIDES * size)
        self._side = 0
        self._wait = wait
        self._ways_out = [(ways_out[at], ways_out[at + 1]) for at in range(0, len(ways_out), 2)]

    def slots(self) -> list[memoryview]:
        """A slot for each worker, by rank, for one exchange, in which all meet at least once.

        Nobody reads them any more: whoever is here has met all others since, and they come to that
        meeting only after they have read.
        """
        self._side = (self._side + 1) % _SIDES
        whole, length = self._memory, self.slot_bytes
        first = self._side * self.size * length
        return [whole[at : at + length] for at in range(first, first + self.size * length, length)]

    def meet(self) -> None:
        """Return once all workers have called it; what each has written before is seen by all.

        Worker 0 waits for a byte of each other, and then writes one for each.
        """
        leave, let_go = self._ways_out[0]
        self._ways_out.reverse()
        if self.rank:
            os.write(self._arrive, b"\0")
            self._read(leave, 1)
            return
        missing = self.size - 1
        while missing:
            missing -= self._read(self._arrived, missing)
        os.write(let_go, bytes(self.size - 1))

    def give_up(self) -> None:
        """Let nobody meet any more: whoever waits, or comes, raises CollectiveError."""
        poller = select.poll()
        for pipe in (self._arrive, *(let_go for _, let_go in self._ways_out)):
            poller.register(pipe, select.POLLOUT)
        for pipe, _ in poller.poll(0):  # one without room has enough of them
            os.write(pipe, _NEVER * self.size)

    def _read(self, pipe: int, most: int) -> int:
        if self._wait is not None:
            self._wait(pipe)
        found = os.read(pipe, most)
        if _NEVER in found:
            raise CollectiveError("a worker has left a collective early.")
        return len(found)
