"""Runs a machine's programs, and shortens one that fails.

Steps are left out, and their picks become simpler.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from unidev_conformance.kit.machines.program import ProgramError, Step

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev_conformance.kit.machines.machine import Machine
    from unidev_conformance.kit.machines.program import Program
    from unidev_conformance.kit.workbench import Workbench

    Make = Callable[[random.Random], Machine]

SHRINKING_S, COMPILING_S = 5.0, 60.0
"""Processor time in which a program that fails is made shorter. Most are short within two.

The second is for frameworks that compile for each new shape."""


def run_machine(
    machine: type[Machine], bench: Workbench, *, programs: int, lines: int
) -> list[Program]:
    """Draw and run that many programs, the same each time.

    Returns:
        The programs.

    Raises:
        AssertionError: one fails; the message is the shortest program found that does.
    """
    ran: list[Program] = []
    try:
        for number in range(programs):
            failure = None
            made = machine(bench, random.Random(number))  # noqa: S311  no secret
            try:
                made.draw(lines)
                made.finish()
            except ProgramError as error:
                failure = error
            finally:
                ran.append(made.program)
                made.close()  # its scopes too, before shorter ones run
            if failure is not None:
                seconds = COMPILING_S if bench.probe.compiles_each_shape else SHRINKING_S
                shortest = shortest_failure(partial(machine, bench), made.steps, failure, seconds)
                raise AssertionError(str(shortest)) from shortest
    finally:
        calls = sum((each.calls for each in ran), Counter())
        bench.evidence.add("programs", len({str(each) for each in ran}))
        bench.evidence.add("calls", {name: calls[name] for name in machine.reaches})
    return ran


def shortest_failure(
    make: Make, steps: list[Step], failure: ProgramError, seconds: float = SHRINKING_S
) -> ProgramError:
    """The failure of the shortest program found that fails.

    If the same steps pass now, it is the first one, and says so: what fails then depends on what
    ran before, or on memory that is not the program's.
    """
    found = _failure_of(make, steps)
    if found is None:
        return ProgramError(f"{failure.message}, and not if it runs again", failure.program)
    shrinking = _Shrinking(make, *found, seconds)
    shrinking.leave_steps_out()
    shrinking.pick_first_choices()
    return shrinking.failure.shortened(shrinking.end)


class _Shrinking:
    """The shortest steps so far, and how they fail."""

    def __init__(
        self, make: Make, steps: list[Step], failure: ProgramError, seconds: float
    ) -> None:
        self.make = make
        self.steps = steps
        self.failure = failure
        self.end = time.process_time() + seconds

    def leave_steps_out(self) -> None:
        """Many at first, the last first."""
        size = len(self.steps)
        while size:
            before = len(self.steps)
            start = before - size
            while start > -size:
                self._try([*self.steps[: max(start, 0)], *self.steps[start + size :]])
                start = min(start, len(self.steps)) - size
            if size > 1 or len(self.steps) == before:
                size //= 2

    def pick_first_choices(self) -> None:
        """The first ones are the simplest."""
        index = 0
        while index < len(self.steps):
            place = 0
            while index < len(self.steps) and place < len(self.steps[index].positions):
                name, positions = self.steps[index]
                if positions[place]:
                    simpler = Step(name, [*positions[:place], 0, *positions[place + 1 :]])
                    self._try([*self.steps[:index], simpler, *self.steps[index + 1 :]])
                place += 1
            index += 1

    def _try(self, steps: list[Step]) -> None:
        """Keep these steps if they fail, too, and there is time."""
        if time.process_time() < self.end:
            found = _failure_of(self.make, steps)
            if found is not None:
                self.steps, self.failure = found


def _failure_of(make: Make, steps: list[Step]) -> tuple[list[Step], ProgramError] | None:
    """The steps that were possible, and the error that they end with; None if they pass."""
    made = make(random.Random(0))  # noqa: S311  no secret
    try:
        made.replay(steps)
        made.finish()
    except ProgramError as error:
        return made.steps, error
    finally:
        made.close()
    return None
