"""A program that fails is made shorter: steps are left out, and what they pick is made simpler."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, NamedTuple

from unidev.conformance.kit.machines.program import ProgramError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from unidev.conformance.kit.machines.machine import Machine

    Make = Callable[[random.Random], Machine]

SHRINKING_S = 5.0
"""A program that fails is made shorter for that long. Most are short within two."""


class Step(NamedTuple):
    """A call of a rule."""

    rule: str
    positions: list[int]
    """Of what it picked, each among its choices."""


def shortest_failure(make: Make, steps: list[Step], failure: ProgramError) -> ProgramError:
    """The failure of the shortest program found that fails.

    It is the first one if the same steps pass now: what fails may depend on memory that is not the
    program's.
    """
    end = time.monotonic() + SHRINKING_S
    was_shortened = True
    while was_shortened:
        was_shortened = False
        for shorter in _shorter(steps):
            if time.monotonic() > end:
                return failure
            found = _failure_of(make, shorter)
            if found is not None:
                steps, failure = found
                was_shortened = True
                break
    return failure.shortened(end)


def _shorter(steps: list[Step]) -> Iterator[list[Step]]:
    """Steps of which some are left out, many first, or pick the first of their choices."""
    size = len(steps)
    while size:
        for start in range(len(steps) - size, -1, -size):
            yield [*steps[:start], *steps[start + size :]]
        size //= 2
    for index, (name, positions) in enumerate(steps):
        for place, position in enumerate(positions):
            if position:
                simpler = Step(name, [*positions[:place], 0, *positions[place + 1 :]])
                yield [*steps[:index], simpler, *steps[index + 1 :]]


def _failure_of(make: Make, steps: list[Step]) -> tuple[list[Step], ProgramError] | None:
    """What is left of the steps, and how they fail, if they do."""
    made = make(random.Random(0))  # noqa: S311  no secret
    try:
        made.replay(steps)
        made.finish()
    except ProgramError as error:
        return made.steps, error
    finally:
        made.close()
    return None
