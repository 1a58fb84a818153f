"""What each worker is about to exchange, compared in words once their codes have differed."""

from __future__ import annotations

import pickle
from itertools import zip_longest
from typing import TYPE_CHECKING

from unidev.system.host.frames import AGREED, DIFFERS, PARENT, Frame

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Description = tuple[str, int, Sequence[str]]
    """The call, such as ``all_reduce of sum``, the number of the worker's step, and lines for its
    weights and tensors."""


class Comparisons:
    """Exchanges that the workers are about to make, by the number of the collective."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._waiting: dict[int, dict[int, Description]] = {}

    def add(self, rank: int, frame: Frame) -> None:
        """Note what a worker wants to exchange."""
        self._waiting.setdefault(frame.tag, {})[rank] = pickle.loads(frame.body)  # noqa: S301  our worker's

    def replies(self) -> Iterator[tuple[int, Frame]]:
        """The reply for each worker of a comparison that is complete."""
        for number, given in list(self._waiting.items()):
            if len(given) < self._size:
                continue
            del self._waiting[number]
            problem = difference(given)
            for rank in given:
                kind = AGREED if problem is None else DIFFERS
                yield rank, Frame(kind, PARENT, number, (problem or "").encode())


def difference(given: Mapping[int, Description]) -> str | None:
    """The first difference between two workers, in words, or None."""
    first, *others = sorted(given)
    for other in others:
        if given[other] == given[first]:
            continue
        (call, step, lines), (other_call, other_step, other_lines) = given[first], given[other]
        if call != other_call:
            return (
                f"worker {first} calls {call}, but worker {other} calls {other_call}: all workers "
                "must call the same ones, in the same order."
            )
        if step != other_step:
            return (
                f"{call}: worker {first} is at step {step}, but worker {other} at step "
                f"{other_step}: one has raised before its step was exchanged, and gone on. All "
                "workers raise this, and the next step is one for all again."
            )
        pairs = zip_longest(lines, other_lines, fillvalue="no further tensor")
        mine, others_own = next(pair for pair in pairs if pair[0] != pair[1])
        return (
            f"{call}: worker {first} has {mine}, but worker {other} has {others_own}. Structures, "
            "shapes, dtypes and listed weights must be the same on all workers."
        )
    return None
