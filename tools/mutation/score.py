"""The share of faults that are caught, with its interval, and the survivors."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from mutation.equivalent import MOST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mutation.equivalent import Equivalents
    from mutation.faults import Fault
    from mutation.record import Record

_Z = 1.959964
"""The normal quantile for 95 %, two-sided."""


@dataclass(frozen=True)
class Score:
    """The result of a sample of faults, as far as they are judged."""

    caught: int
    survivors: tuple[Fault, ...]
    equivalents: tuple[tuple[Fault, str], ...]
    """Listed with a reason; they count neither as caught nor as survivors."""
    hows: Counter[str]
    rooms: dict[str, tuple[int, int]]
    """Caught and judged faults of each folder."""

    @property
    def judged(self) -> int:
        """Faults that count."""
        return self.caught + len(self.survivors)

    @property
    def share(self) -> float:
        """Caught, from 0 to 1."""
        return self.caught / self.judged if self.judged else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of ``share``, after Wilson: right for small samples and near 1."""
        n, p, z = self.judged, self.share, _Z
        if not n:
            return 0.0, 1.0
        centre = (p + z * z / (2 * n)) / (1 + z * z / n)
        half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return max(centre - half, 0.0), min(centre + half, 1.0)


def score(faults: Sequence[Fault], record: Record, equivalents: Equivalents) -> Score:
    """The score of those faults that have a verdict.

    Raises:
        ValueError: more than ``MOST`` of them are listed as equivalent.
    """
    judged = [fault for fault in faults if fault in record]
    alive = [fault for fault in judged if not record[fault].is_caught]
    reasons = [(fault, equivalents.reason(fault)) for fault in alive]
    listed = tuple((fault, reason) for fault, reason in reasons if reason is not None)
    if len(listed) > max(MOST * len(faults), 1):
        raise ValueError(f"{len(listed)} of {len(faults)} faults are listed as equivalent")
    counted = [fault for fault in judged if fault not in dict(listed)]
    rooms = {
        room: (sum(record[fault].is_caught for fault in found), len(found))
        for room, found in _by_room(counted).items()
    }
    return Score(
        caught=len(judged) - len(alive),
        survivors=tuple(fault for fault, reason in reasons if reason is None),
        equivalents=listed,
        hows=Counter(record[fault].how for fault in judged),
        rooms=rooms,
    )


def _by_room(faults: Sequence[Fault]) -> dict[str, list[Fault]]:
    rooms: dict[str, list[Fault]] = defaultdict(list)
    for fault in faults:
        rooms[str(PurePath(fault.module).parent)].append(fault)
    return rooms
