"""How far each worker of a host has come, in memory that they share with who watches them.

A worker writes a few numbers for each collective, which takes less than a microsecond.
"""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING

from unidev.contract.launcher import Progress

if TYPE_CHECKING:
    from collections.abc import Iterator

OPERATIONS = (
    "nothing", "joining the group", "all_reduce", "broadcast", "all_gather", "barrier",
    "checkpoint", "restore", "shard",
)  # fmt: skip
"""Operations in which a worker may wait, by number."""
JOINING = OPERATIONS.index("joining the group")
_FIELDS = len(Progress._fields)
_BYTES = 8


def board_bytes(count: int) -> int:
    """The length of the board of so many workers."""
    return count * _FIELDS * _BYTES


class Board:
    """The numbers of the workers of one host, by their places there."""

    def __init__(self, file: int, count: int) -> None:
        self._count = count
        self._cells = memoryview(mmap.mmap(file, board_bytes(count))).cast("Q")

    def read(self, place: int) -> Progress:
        """The progress of the worker at ``place``; fields are read in the order that matters."""
        start = place * _FIELDS
        return Progress(*self._cells[start : start + _FIELDS])

    def mark(self, place: int) -> Mark:
        """Where the worker at ``place`` writes."""
        others = [each * _FIELDS for each in range(self._count) if each != place]
        return Mark(self._cells, place * _FIELDS, others)


class Mark:
    """One worker's own numbers, and those of the others on its host."""

    def __init__(self, cells: memoryview | list[int], start: int, others: list[int]) -> None:
        self._cells = cells
        self._start = start
        self._others = others
        self.operation = 0

    @classmethod
    def alone(cls) -> Mark:
        """The mark of a process that is not watched."""
        return cls([0] * _FIELDS, 0, [])

    def enter(self, operation: int, signature: int, *, is_exchanging: bool) -> int:
        """Note that a collective begins; returns its number, from 1."""
        cells, start = self._cells, self._start
        self.operation = operation
        cells[start + 2] = operation
        cells[start + 3] = signature
        cells[start + 4] = is_exchanging
        number = int(cells[start]) + 1
        cells[start] = number  # last: who reads it sees the others
        return number

    def doing(self, operation: int) -> None:
        """Note what a part of the collective is."""
        self.operation = operation
        self._cells[self._start + 2] = operation

    def exchange(self) -> None:
        """Note that all have the same structure, so the exchange begins."""
        self._cells[self._start + 4] = 1

    def leave(self) -> None:
        """Note that the collective is over."""
        self._cells[self._start + 1] = self._cells[self._start]

    def differing(self) -> Iterator[Progress]:
        """Workers of this host that exchange something else in the same collective."""
        cells, start = self._cells, self._start
        number, signature = cells[start], cells[start + 3]
        for other in self._others:
            if cells[other] == number and cells[other + 4] and cells[other + 3] != signature:
                yield Progress(*cells[other : other + _FIELDS])
