"""What both machines have: a program, the devices, and the tensors that it holds."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisException
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from unidev.conformance.kit.inputs.samples import is_numpy_dtype
from unidev.conformance.kit.machines.program import Program, ProgramError
from unidev.contract.backend import Unsupported

if TYPE_CHECKING:
    from hypothesis.strategies import DataObject, SearchStrategy

    from unidev.conformance.kit.workbench import Workbench

SHAPES = st.one_of(
    st.lists(st.integers(1, 5), min_size=0, max_size=3).map(tuple),
    st.tuples(st.integers(2, 5), st.integers(2, 5)),  # views are of these
    st.tuples(st.just(3), st.integers(300, 1_100)),
)
MOST_HELD = 12
"""Tensors at once: a longer list is looked through for longer, and shows no more."""
SHRINKING_S = 5.0
"""A program that fails is made shorter for that long. Most are short within two."""


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
    definitions: ClassVar[str] = ""
    """Functions that the program has."""
    calls: ClassVar[Counter[str]]
    """Of all programs so far."""

    failures: ClassVar[list[ProgramError]]
    """Of all programs so far."""

    def __init__(self) -> None:
        if self.failures and time.monotonic() > self.failures[0].at + SHRINKING_S:
            raise _ShrunkForLongError
        super().__init__()
        self._folder = tempfile.TemporaryDirectory(prefix="unidev-sequence-")
        self.program = Program(self.bench, self._folder.name, self.definitions, self.failures)
        self.devices = [str(device) for device in self.bench.devices]
        self.held: list[Held] = []
        self._count = 0

    @property
    def is_mutable(self) -> bool:
        """Whether the framework's tensors can be written to."""
        return not isinstance(self.bench.probe.write, Unsupported)

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

    # -- tensors ----------------------------------------------------------------------------------

    def model(self, number: int, values: str, dtype: str, shape: tuple[int, ...]) -> None:
        """Make the model of a tensor: an array; of bfloat16 in float32, as NumPy lacks it."""
        kept = dtype if is_numpy_dtype(dtype) else "float32"
        self.program.run(f"m{number} = ({values}).astype({kept!r}).reshape({shape})")

    def hold(
        self,
        number: int,
        dtype: str,
        device: str,
        *,
        storage: object = None,
        is_writable: bool = True,
    ) -> Held:
        """Have a tensor that the program has made; the oldest goes if there are too many."""
        held = Held(number, dtype, device, storage or object(), is_writable)
        self.held.append(held)
        if len(self.held) > MOST_HELD:
            self.program.run(f"del {self.held.pop(0).x}")
        return held

    def any(self, data: DataObject) -> Held:
        """One of the tensors."""
        found: Held = self.pick(data, self.held)
        return found

    def check(self, held: Held) -> None:
        """A tensor has the values and shape of its model, and is where it should be."""
        x, m = held.x, held.m
        if is_numpy_dtype(held.dtype):
            self.program.check(f"probe.read({x}) == {m}.tobytes()")
        else:
            numbers = f"unidev.to_numpy(unidev.array({x}, dtype='float32'))"
            self.program.check(f"np.array_equal({numbers}, {m})")
        self.program.check(f"str(unidev.device_of({x})) == {held.device!r}")
        self.program.check(f"tuple({x}.shape) == {m}.shape")

    def check_all(self) -> None:
        """Everything that is held has its values still."""
        for held in self.held:
            self.check(held)

    def teardown(self) -> None:
        """Look at everything, and leave the scopes that are still open."""
        try:
            self.check_all()
        finally:
            type(self).calls.update(self.program.calls)
            self.program.scopes.close()
            self._folder.cleanup()


def size_of(shape: tuple[int, ...]) -> int:
    """The number of elements."""
    return int(np.prod(shape, dtype=int))


def run_machine(machine: type[Machine], bench: Workbench, *, programs: int, lines: int) -> None:
    """Draw and run that many programs, the same each time.

    Raises:
        AssertionError: one fails; the message is the shortest program found that does.
    """
    failures: list[ProgramError] = []
    own: type[Machine] = type(
        machine.__name__, (machine,), {"bench": bench, "calls": Counter(), "failures": failures}
    )
    drawn = settings(
        max_examples=programs, stateful_step_count=lines, derandomize=True, database=None,
        deadline=None, report_multiple_bugs=False, print_blob=False,
        phases=(Phase.generate, Phase.shrink), suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    try:
        run_state_machine_as_test(own, settings=drawn)
    except (ProgramError, _ShrunkForLongError, HypothesisException) as error:
        # Also where the same program passes when it is run again, which Hypothesis calls flaky.
        if not failures:
            raise
        shortest = min(failures, key=lambda failure: failure.lines)
        raise AssertionError(str(shortest)) from error
    finally:
        bench.evidence.add("calls", ", ".join(f"{n} {c}" for n, c in sorted(own.calls.items())))


class _ShrunkForLongError(BaseException):
    """Ends Hypothesis: there is a short program, and a shorter one would take long to find."""
