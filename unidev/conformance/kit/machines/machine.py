"""What both machines have: a program, the devices, and the tensors that it holds."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from unidev.conformance.kit.machines.program import Program

if TYPE_CHECKING:
    from hypothesis.strategies import DataObject, SearchStrategy

    from unidev.conformance.kit.workbench import Workbench

MOST_HELD = 12
"""Tensors at once: a longer list is looked through for longer, and shows no more."""


@dataclass(eq=False)
class Held:
    """A tensor ``t3`` of the program, and its model ``m3``, an array of NumPy."""

    number: int
    dtype: str
    device: str
    storage: object
    """The same object for all tensors on the same memory."""
    is_writable: bool

    @property
    def x(self) -> str:
        """The tensor's name."""
        return f"t{self.number}"

    @property
    def m(self) -> str:
        """The model's name."""
        return f"m{self.number}"


class Machine(RuleBasedStateMachine):
    """Draws a program, and runs it as it is drawn."""

    bench: ClassVar[Workbench]
    calls: ClassVar[Counter[str]]
    """Of all programs so far."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory(prefix="unidev-sequence-")
        self.program = Program(self.bench, self._folder.name)
        self.devices = [str(device) for device in self.bench.devices]
        self.held: list[Held] = []
        self._count = 0

    def number(self) -> int:
        """A new number for names."""
        self._count += 1
        return self._count

    def pick(self, data: DataObject, choices: SearchStrategy[Any] | list[Any]) -> Any:
        """One of ``choices``."""
        return data.draw(st.sampled_from(choices) if isinstance(choices, list) else choices)

    def device(self, data: DataObject) -> str:
        """One of the devices, by its name."""
        return str(self.pick(data, self.devices))

    def teardown(self) -> None:
        """Leave the scopes that are still open."""
        type(self).calls.update(self.program.calls)
        self.program.scopes.close()
        self._folder.cleanup()


def run_machine(machine: type[Machine], bench: Workbench, *, programs: int, lines: int) -> None:
    """Draw and run that many programs, the same each time.

    Raises:
        AssertionError: one fails; the message is the shortest program found that does.
    """
    own = type(machine.__name__, (machine,), {"bench": bench, "calls": Counter()})
    drawn = settings(
        max_examples=programs, stateful_step_count=lines, derandomize=True, database=None,
        deadline=None, report_multiple_bugs=False, print_blob=False,
        phases=(Phase.generate, Phase.shrink), suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    try:
        run_state_machine_as_test(own, settings=drawn)
    finally:
        bench.evidence.add("calls", ", ".join(f"{n} {c}" for n, c in sorted(own.calls.items())))
