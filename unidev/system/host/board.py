"""How far each worker of a host has come, in memory that they share with who watches them.

A worker writes a few numbers for each collective, which takes less than a microsecond.
"""

from __future__ import annotations

import math
import mmap
import struct
import time
from typing import TYPE_CHECKING

from unidev.errors import CollectiveError
from unidev.system.host.events import Progress
from unidev.system.wording import seconds_text

if TYPE_CHECKING:
    from collections.abc import Callable

OPERATIONS = (
    "nothing", "joining the group", "all_reduce", "broadcast", "all_gather", "barrier",
    "checkpoint", "restore", "shard", "backward, with exchanges under way",
)  # fmt: skip
"""Operations in which a worker may wait, by number."""
ALL_REDUCE = OPERATIONS.index("all_reduce")
JOINING = OPERATIONS.index("joining the group")
BY_THE_FIRST = OPERATIONS.index("checkpoint"), OPERATIONS.index("restore")
"""In these, worker 0 works while the others wait for it."""
BACKWARD = len(OPERATIONS) - 1
_FIELDS = len(Progress._fields)
_PROPOSALS = 2
"""A worker shows those of its last two collectives: no worker is more than one ahead of another."""
_PROPOSAL = 3
"""Cells of one: a word, a weight, and a check that both belong together."""
_ABANDONED = _FIELDS + _PROPOSALS * _PROPOSAL
"""The cell for the number of the last collective that the worker has abandoned."""
_GAVE_UP = _ABANDONED + 1
"""The cell that is not 0 once the worker exchanges no more, where nobody else says so."""
_CELLS = _GAVE_UP + 1
_BYTES = 8
_NUMBER = 0xFFFF
"""Bits of such a word that are the number of the collective; the others are the code's. One word
holds both, so whoever reads it sees either all of it or nothing, whatever the processor's order."""
_INTEGER, _DOUBLE = struct.Struct("<Q"), struct.Struct("<d")
_SHARE, _SHORTEST_S, _LONGEST_S = 1 / 16, 5e-5, 2e-3
"""Between two looks at the others a worker sleeps: a share of the time waited, so that little of it
is lost. It never spins, not even with `sched_yield`: where workers have as many cores as they are,
that keeps the framework's own threads from theirs until the scheduler's next tick (4 ms; seen on
Linux 6.18 with gloo, whose median of 0.6 ms became 2.5)."""


def board_bytes(count: int) -> int:
    """The length of the board of so many workers."""
    return count * _CELLS * _BYTES


class Board:
    """The numbers of the workers of one host, by their places there."""

    def __init__(self, file: int, count: int) -> None:
        self._count = count
        self._cells = memoryview(mmap.mmap(file, board_bytes(count))).cast("Q")

    def read(self, place: int) -> Progress:
        """The progress of the worker at ``place``; fields are read in the order that matters."""
        start = place * _CELLS
        return Progress(*self._cells[start : start + _FIELDS])

    def mark(self, place: int, timeout_s: float = math.inf) -> Mark:
        """Where the worker at ``place`` writes; it waits no longer than that for another."""
        others = [each * _CELLS for each in range(self._count) if each != place]
        return Mark(self._cells, place * _CELLS, others, timeout_s)


class Mark:
    """One worker's own numbers, and those of the others on its host."""

    def __init__(
        self,
        cells: memoryview | list[int],
        start: int,
        others: list[int],
        timeout_s: float = math.inf,
    ) -> None:
        self._timeout_s = timeout_s
        self._cells = cells
        self._start = start
        self.operation = 0
        self._show(cells, start, others)

    def _show(self, cells: memoryview | list[int], place: int, others: list[int]) -> None:
        """Where others see proposals, and who gives nothing more."""
        self._common, self._place, self._others = cells, place, others
        self.count = len(others) + 1
        """How many workers share the board."""

    def show_at(self, other: Mark) -> None:
        """Show what others see to its board; who watches this worker looks where it did."""
        self._show(other._common, other._place, other._others)

    @classmethod
    def alone(cls) -> Mark:
        """The mark of a process that is not watched."""
        return cls([0] * _CELLS, 0, [])

    def enter(self, operation: int) -> int:
        """Note that a collective begins; returns its number, from 1."""
        cells, start = self._cells, self._start
        self.operation = operation
        cells[start + 2] = operation
        number = int(cells[start]) + 1
        cells[start] = number  # last: who reads it sees the others
        return number

    @property
    def entered(self) -> int:
        """The number of the collective that this worker has entered last."""
        return int(self._cells[self._start])

    @property
    def is_inside(self) -> bool:
        """Whether it has not left that one."""
        return bool(self._cells[self._start] != self._cells[self._start + 1])

    def propose(self, number: int, code: int, weight: float) -> None:
        """Show, also before entering it, what collective ``number`` is; waits for nobody."""
        cells, word = self._common, _word(code, number)
        at = self._place + _place(number)
        bits = cells[at + 1] = bits_of(weight)
        cells[at + 2] = bits ^ word
        cells[at] = word

    def agreed(self, number: int, code: int, check: Callable[[], None]) -> list[float] | None:
        """The weights of all workers of the board, by place; None if a code is not ``code``.

        Waits until all have proposed this collective, or ``check`` raises. The answer is the same
        on each.
        """
        cells, word, at = self._common, _word(code, number), _place(number)
        for other in self._others:
            self._await(other + at, word, check)
        if any(cells[other + at] != word for other in self._others):
            return None
        found = []
        for start in range(0, self.count * _CELLS, _CELLS):
            cell = start + at
            while (bits := cells[cell + 1]) ^ word != cells[cell + 2]:
                time.sleep(_SHORTEST_S)  # this processor shows them in another order
            found.append(weight_of(bits))
        return found

    def _await(self, cell: int, word: int, check: Callable[[], None]) -> None:
        """Wait until the number in ``cell`` is that in ``word``."""
        cells = self._common
        if not (cells[cell] ^ word) & _NUMBER:
            return
        start = time.monotonic()
        while (cells[cell] ^ word) & _NUMBER:
            try:
                check()
            except CollectiveError:
                if (cells[cell] ^ word) & _NUMBER:  # else it has come, and ended since
                    raise
            waited = time.monotonic() - start
            if waited > self._timeout_s:
                raise CollectiveError(
                    f"worker {cell // _CELLS} has not come to {OPERATIONS[self.operation]} within "
                    f"{seconds_text(self._timeout_s)}."
                )
            time.sleep(min(max(waited * _SHARE, _SHORTEST_S), _LONGEST_S))

    def go_back(self) -> None:
        """Note that this worker computes again: it has not come to the end of the collective."""
        self.doing(BACKWARD)
        self._cells[self._start] -= 1

    def abandon(self, number: int) -> None:
        """Note that this worker gives nothing more to collective ``number``."""
        self._common[self._place + _ABANDONED] = number

    def abandoned(self, number: int) -> list[int]:
        """The places of the other workers that have abandoned it."""
        cells = self._common
        return [x // _CELLS for x in self._others if cells[x + _ABANDONED] == number]

    def give_up(self) -> None:
        """Note that this worker exchanges no more."""
        self._common[self._place + _GAVE_UP] = 1

    def has_one_given_up(self) -> bool:
        """Whether another worker has."""
        cells = self._common
        return any(cells[x + _GAVE_UP] for x in self._others)

    def doing(self, operation: int) -> None:
        """Note what a part of the collective is."""
        self.operation = operation
        self._cells[self._start + 2] = operation

    def leave(self) -> None:
        """Note that the collective is over."""
        self._cells[self._start + 1] = self._cells[self._start]


def bits_of(weight: float) -> int:
    """Its 64 bits, as an integer that is not negative."""
    (found,) = _INTEGER.unpack(_DOUBLE.pack(weight))
    return int(found)


def weight_of(bits: int) -> float:
    """The number with these bits."""
    (found,) = _DOUBLE.unpack(_INTEGER.pack(bits))
    return float(found)


def _word(code: int, number: int) -> int:
    return (code & ~_NUMBER) | (number & _NUMBER)


def _place(number: int) -> int:
    """The first cell of its proposal."""
    return _FIELDS + number % _PROPOSALS * _PROPOSAL
