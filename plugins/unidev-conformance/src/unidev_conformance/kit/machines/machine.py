"""The base of both machines: rules that are drawn, the devices, and the tensors that they hold."""

from __future__ import annotations

import builtins
import functools
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from unidev_conformance.kit.inputs.samples import is_numpy_dtype
from unidev_conformance.kit.machines.program import Program, Step
from unidev_conformance.kit.oracle import overlapping_bytes

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping, Sequence

    from unidev_conformance.kit.workbench import Workbench

    Rule = Callable[[Any], None]

T = TypeVar("T")

OR_NOT = [False, True]
_ANOTHER = object()
"""In place of something that was picked, to pick it anew."""
_RECENT = 8
"""Calls of any rule that are repeated: what earlier ones were called with is mostly gone."""
MOST_HELD = 8
"""Tensors at once: a longer list is looked through for longer, and shows no more."""

DEFINITIONS = """\
def state():
    return dict(probe.global_state())

def refused(error, call):
    before = state()
    try:
        call()
    except error as refusal:
        assert not isinstance(refusal, unidev.UnidevError) or len(str(refusal)) > 20, refusal
    else:
        raise AssertionError(f"no {error.__name__} is raised")
    assert state() == before, "a refused call has changed the framework's defaults"

def hidden(x):
    made = type("Hidden", (), {"__slots__": ("x",)})()
    made.x = x
    return made

def at_once(*calls):
    start = threading.Barrier(len(calls))
    def begun(call):
        start.wait(60)
        return call()
    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(begun, calls))

"""
"""Functions that programs of all machines have."""


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


def rule(when: Callable[[Any], object] = lambda _: True) -> Callable[[Rule], Rule]:
    """Let a machine draw the method ``when`` that is true of the machine."""

    def made(method: Rule) -> Rule:
        method.when = when  # type: ignore[attr-defined]
        return method

    return made


class Machine:
    """Draws a program, and runs it as it is drawn.

    Not by Hypothesis: its first example is the simplest, later ones are variants of earlier ones,
    and drawing takes twice as long as the calls. Of 60 programs a dozen were different.
    """

    definitions: ClassVar[str] = ""
    """Functions that the program has."""
    reaches: ClassVar[tuple[str, ...]]
    """The public functions that its programs call, as far as the backend has them."""

    def __init__(self, bench: Workbench, numbers: random.Random) -> None:
        self.bench = bench
        self.devices = [str(device) for device in bench.devices]
        self.default = self.devices[0]
        self.held: list[Held] = []
        self.steps: list[Step] = []
        """Whatever has been done so far; ``replay`` does it again."""
        self._numbers = numbers
        self._recorded: list[int] = []
        self._again: list[Any] = []
        self._picked: list[Any] = []
        self._done: list[tuple[str, list[Any]]] = []
        """The calls of rules, and what each picked."""
        self._count = 0
        self._folder = tempfile.TemporaryDirectory(prefix="unidev-sequence-")
        self.program = Program(bench, self._folder.name, self.definitions)

    @classmethod
    @functools.cache
    def rules(cls) -> list[str]:
        """The names of all that can be drawn."""
        return [name for name in dir(cls) if hasattr(getattr(cls, name), "when")]

    def begin(self) -> None:
        """Pick what all of the program has in common.

        It is little, few devices and the like: what is kept for the next call alike is then met.
        """
        self.devices = list(dict.fromkeys(self.pick(self.devices) for _ in range(3)))

    # -- drawing ----------------------------------------------------------------------------------

    def draw(self, count: int) -> None:
        """Do so many steps. Every second one is much like one before.

        A cache that is not cleared shows at the second call alike, one whose key is too short at a
        call that differs in one thing, and such calls are seldom drawn. So a call may be repeated
        as it was, after a change of what it is called with, or with one thing picked anew.
        """
        self._do("begin", [])
        self._done.clear()
        for _ in range(count):
            rules = [name for name in self.rules() if self._is_possible(name)]
            name = self._numbers.choice(rules)
            of_the_rule = [each for each in self._done if each[0] == name]
            recent = [each for each in self._done[-_RECENT:] if each[0] in rules]
            before = self._numbers.choice([[], [], of_the_rule, recent])
            if before:
                self._repeat(*self._numbers.choice(before))
            else:
                self._do(name, [])

    def _repeat(self, name: str, picked: list[Any]) -> None:
        again = list(picked)
        how = self._numbers.randrange(3)
        if how == 1:
            self.change(again)
        elif how == 2 and again:
            again[self._numbers.randrange(len(again))] = _ANOTHER
        if self._is_possible(name):
            self._do(name, again)

    def replay(self, steps: Sequence[Step]) -> None:
        """Do these steps, as far as they are possible."""
        begins = [step for step in steps if step.rule == "begin"] or [Step("begin", [])]
        for step in [*begins, *(step for step in steps if step.rule != "begin")]:
            if step.rule == "begin" or self._is_possible(step.rule):
                self._recorded = [*step.positions, *[0] * 40]  # where a rule picks more than then
                self._do(step.rule, [])

    def pick(self, choices: Sequence[T]) -> T:
        """One of ``choices``: drawn, recorded, or the same as before, if it is there still."""
        if self._recorded:
            position = min(self._recorded.pop(0), len(choices) - 1)
        else:
            wanted = self._again.pop(0) if self._again else None
            position = (
                choices.index(wanted)
                if wanted in choices
                else self._numbers.randrange(len(choices))
            )
        self.steps[-1].positions.append(position)
        self._picked.append(choices[position])
        return choices[position]

    def change(self, things: list[Any]) -> None:
        """Write to one of the tensors among ``things``, or to the last of its rows."""
        name = self._numbers.choice(["write", "write_the_last"])
        writable = self._sliceable() if name == "write_the_last" else self.writable()
        found = [each for each in things if each in writable]
        if found:
            self._do(name, found[:1])
            self._done.pop()

    def _is_possible(self, name: str) -> bool:
        return bool(getattr(self, name).when(self))

    def _do(self, name: str, again: list[Any]) -> None:
        self._again, self._picked = list(again), []
        self.steps.append(Step(name, []))
        getattr(self, name)()
        self._recorded = []
        self._done.append((name, self._picked))

    # -- tensors ----------------------------------------------------------------------------------

    @functools.cached_property
    def slices_share(self) -> bool:
        """Whether a slice, by brackets, is a view."""
        x = self.bench.probe.make(np.ones(3, "float32"), self.bench.cpu)
        if not (self.is_mutable and hasattr(x, "__getitem__")):
            return False
        return overlapping_bytes(*(list(self.bench.probe.extents(y)) for y in (x, x[-1:]))) > 0

    @functools.cached_property
    def others(self) -> str:
        """What follows a slice in brackets: the other axes, if the framework wants them, too."""
        x = self.bench.probe.make(np.ones((2, 2), "float32"), self.bench.cpu)
        try:
            _ = x[1:]
        except IndexError:  # as the array API standard permits
            return ", ..."
        return ""

    @property
    def is_mutable(self) -> bool:
        """Whether the framework's tensors can be written to."""
        return self.bench.has("probe.write")

    def number(self) -> int:
        """A new number for names."""
        self._count += 1
        return self._count

    def device(self) -> str:
        """One of the devices, by its name."""
        return self.pick(self.devices)

    def any(self) -> Held:
        """One of the tensors, the last first: so earlier steps can be left out."""
        return self.pick(self.held[::-1])

    def writable(self) -> list[Held]:
        """The tensors that can be written to, the last first."""
        return [held for held in self.held[::-1] if held.is_writable and self.is_mutable]

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
            self.drop_tensor(self.held[0])
        return held

    def drop_tensor(self, held: Held) -> None:
        """Delete a tensor; its memory may be given to the next one."""
        self.held.remove(held)
        self.program.run(f"del {held.x}")

    @rule(lambda self: self.writable())
    def write(self) -> None:
        """Whatever shares the memory changes with it, and nothing else."""
        held = self.pick(self.writable())
        self._write(held, self.pick([0, 1] if held.dtype == "bool" else range(2, 100)))

    @rule(lambda self: self._sliceable())
    def write_the_last(self) -> None:
        """Only a part changes, which what looks at the first elements alone does not see."""
        held, part = self.pick(self._sliceable()), f"[-1:{self.others}]"
        self._write(held, self.pick([0, 1] if held.dtype == "bool" else range(2, 100)), part)

    def _sliceable(self) -> list[Held]:
        """The writable tensors with an axis, if the framework's slices share memory."""
        if not self.slices_share:
            return []
        return [held for held in self.writable() if self.program.names[held.m].ndim]

    def _write(self, held: Held, value: int, part: str = "") -> None:
        self.program.run_if_it_matters(
            f"probe.write({held.x}{part}, {value})", f"{held.m}{part or '[...]'} = {value}"
        )

    def refuse_one(self, calls: Mapping[str, Sequence[str]], **names: str) -> None:
        """Run one of the calls that raise, by the names of errors, with these names in braces."""
        error = self.pick(list(calls))
        named = error if hasattr(builtins, error) else f"unidev.{error}"
        call = self.pick(calls[error]).format(**names)
        self.program.run(f"refused({named}, lambda: {call})")

    # -- looking ----------------------------------------------------------------------------------

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

    def check_tensors(self) -> None:
        """Everything that is held has its values still, also where it is read by unidev."""
        for held in self.held:
            self.check(held)
            if is_numpy_dtype(held.dtype):
                self.program.check(f"unidev.to_numpy({held.x}).tobytes() == {held.m}.tobytes()")

    def finish(self) -> None:
        """Look at everything, write another number to each memory or its end, wait, look again.

        So what is shared, or arrives late, shows.
        """
        self.check_tensors()
        sliceable = self._sliceable()
        for number, held in enumerate({held.storage: held for held in self.writable()}.values()):
            part = f"[-1:{self.others}]" if number % 2 and held in sliceable else ""
            self._write(held, number % 2 if held.dtype == "bool" else 101 + number, part)
        self.program.run_if_it_matters(f"for device in {self.devices}: unidev.synchronize(device)")
        self.check_tensors()

    def close(self) -> None:
        """Leave the scopes that are still open, and drop everything."""
        self.program.close()
        self._folder.cleanup()


def size_of(shape: tuple[int, ...]) -> int:
    """The number of elements."""
    return int(np.prod(shape, dtype=int))
