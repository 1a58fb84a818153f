"""Strategies for Hypothesis: numbers that a dtype holds, runs of integers, sizes and containers.

Hypothesis draws the bits of one seed an example, and the rest follows from that. Of the numbers
that it draws itself, one in twenty is a constant of a module that happens to be imported (seen in
6.170): that takes long to find, and is another one wherever other modules are imported.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from unidev_conformance.kit.inputs import samples
from unidev_conformance.kit.inputs.containers import Custom, Frozen
from unidev_conformance.kit.inputs.drawing import CONTIGUOUS, Drawn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Random = np.random.Generator

T = TypeVar("T")
a_handful = settings(
    max_examples=15,
    derandomize=True,
    database=None,
    deadline=None,  # a first call may build or compile something
    report_multiple_bugs=False,
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)

a_few = settings(a_handful, max_examples=5, phases=(Phase.explicit, Phase.generate))
"""For cases of many tensors: no shrinking either, since a message names the tensor."""

a_couple = settings(a_few, max_examples=2)
"""For those that are judged on each device, or beside examples that are always met."""


def _generator(bits: tuple[bool, ...]) -> Random:
    return np.random.Generator(np.random.Philox(int("".join(map(str, map(int, bits))), 2)))


generators = st.tuples(*[st.booleans()] * 16).map(_generator)
"""Strategy of the random generators that the functions below draw from."""


def from_seed(draw: Callable[[Random], T]) -> st.SearchStrategy[T]:
    """Strategy of the values that ``draw`` makes from a random generator."""
    return generators.map(draw)


def sizes(dtypes: Sequence[str]) -> st.SearchStrategy[tuple[str, int, int]]:
    """Strategy of a dtype, a number of elements, and an offset of ``samples.ALIGNMENTS``."""
    return from_seed(
        lambda rng: (pick(rng, dtypes), size(rng, 100_000), pick(rng, samples.ALIGNMENTS))
    )


def pick(rng: Random, values: Sequence[Any]) -> Any:
    """One of ``values``, as it is: NumPy's ``choice`` makes arrays of them."""
    return values[int(rng.integers(len(values)))]


def some(rng: Random, values: Sequence[Any], least: int, most: int) -> list[Any]:
    """``least`` to ``most`` of ``values``, also the same again."""
    return [pick(rng, values) for _ in range(rng.integers(least, most + 1))]


def number(rng: Random, dtype: str) -> Any:
    """A number of Python's that ``dtype`` holds exactly, often one of its limits."""
    if not samples.is_numpy_dtype(dtype):  # bfloat16, in the upper half of float32
        bits = rng.integers(2**16, dtype="uint32") << 16
        return _finite(bits.view("float32").item(), -0.0)
    if rng.integers(2):
        return _finite(pick(rng, samples.telling_bits(dtype).tolist()), -0.0)
    drawn = np.frombuffer(rng.bytes(np.dtype(dtype).itemsize), "uint8")
    return _finite((drawn & 1 if dtype == "bool" else drawn).view(dtype)[0].item(), 1)


def _finite(value: Any, otherwise: Any) -> Any:
    """``value``, unless it is NaN, of which there are many."""
    return otherwise if value != value else value  # noqa: PLR0124


def filled(value: Any, dtype: str, count: int) -> bytes:
    """The bytes of ``count`` elements of ``dtype`` that are ``value``."""
    if not samples.is_numpy_dtype(dtype):
        bits = np.full(count, value, "float32").view("uint32") >> 16
        return bits.astype("uint16").tobytes()
    return np.full(count, value, dtype).tobytes()


@dataclass(frozen=True)
class Run:
    """Integers from ``start`` on, ``step`` apart."""

    start: int
    step: int
    count: int

    @property
    def stop(self) -> int:
        """The first that is not among them."""
        return self.start + self.step * self.count

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.start, self.stop, self.step))


def run(rng: Random, dtype: str) -> Run:
    """Integers that ``dtype`` holds, often beyond those that floating-point numbers tell apart."""
    limits = np.iinfo(dtype)
    ends = [*(2**n for n in (0, 7, 24, 31, 53, 62)), int(limits.min), int(limits.max)]
    near = [n for n in ends if limits.min <= n <= limits.max]
    step, count = pick(rng, (1, 2, 3, -1, -7)), int(rng.integers(34))
    low, high = sorted((0, step * count))
    start = int(pick(rng, near)) + int(rng.integers(-3, 4))
    return Run(min(max(start, int(limits.min) - low), int(limits.max) - high), step, count)


def size(rng: Random, most: int) -> int:
    """A positive number of elements, half of the time next to a power of two."""
    found = int(np.exp2(rng.uniform(0, np.log2(most))))
    if rng.integers(2):
        found = 2 ** (found.bit_length() - 1) + int(rng.integers(-1, 2))
    return max(found, 1)


@dataclass(frozen=True)
class Leaf:
    """A small tensor to make for a container; equal ones are one tensor."""

    dtype: str
    layout: str
    number: int

    def drawn(self) -> Drawn:
        """A tensor with that dtype and layout, whose values ``number`` tells from others."""
        small = ((2, 3), (), (1,))[self.number % 3 if self.layout == CONTIGUOUS else 0]
        values = samples.counting(_SHAPES.get(self.layout, small))
        if self.dtype == "bool":
            values = values % (self.number + 2) < 1
        numpy_dtype = self.dtype if samples.is_numpy_dtype(self.dtype) else "float32"
        values = (values + self.number).astype(numpy_dtype)
        return Drawn(values, self.dtype, self.layout, "in C order", False, None)


_SHAPES = {
    "rows": (5, 1, 1, 2),
    "reversed": (3, 2, 1, 2),
    "mirrored": (3, 2, 1, 2),
    "permuted": (2, 3, 2, 4),
}


def tree(rng: Random, dtypes: Sequence[str], layouts: Sequence[str], most: int) -> Any:
    """Nested containers, registered ones too, with up to ``most`` leaves, wide ones and deep ones.

    Their leaves are each a ``Leaf`` of any of the dtypes and layouts, some of them repeated, and
    things that are not tensors.
    """
    pool = [
        Leaf(pick(rng, dtypes), pick(rng, layouts), number)
        for number in range(1 + int(rng.integers(most)))
    ]
    wide = [pick(rng, pool) for _ in range(1 + int(rng.integers(most)))]
    deep = _nested(rng, [*pool, None, 3, "text"], 3)
    return pick(rng, (wide, (deep,), {"b": tuple(wide[:9]), "a": deep}))


def _nested(rng: Random, leaves: Sequence[Any], depth: int) -> Any:
    kind = pick(rng, ("leaf", "list", "tuple", "dict", Custom, Frozen)) if depth else "leaf"
    if kind == "leaf":
        return pick(rng, leaves)
    inner = [_nested(rng, leaves, depth - 1) for _ in range(int(rng.integers(5)))]
    if kind in (Custom, Frozen):  # of one class, and each with another rest
        return kind(inner, pick(rng, ("one", "other", 3)))
    if kind == "dict":
        return dict(zip(("b", "a", 1, None), inner, strict=False))
    return inner if kind == "list" else tuple(inner)


def large(dtypes: Sequence[str]) -> Any:
    """300 leaves, and one that is 40 containers deep."""
    deep: Any = Leaf(dtypes[0], "contiguous", 300)
    for number in range(40):
        deep = [deep, number] if number % 2 else {"in": (deep,)}
    names = zip(itertools.cycle(dtypes), range(300), strict=False)
    return {"wide": [Leaf(name, "contiguous", number) for name, number in names], "deep": deep}


def all_tied(dtypes: Sequence[str], layouts: Sequence[str], count: int) -> list[Leaf]:
    """Twice ``count`` leaves: each dtype and layout if they are so many, and each leaf repeated."""
    pairs = zip(itertools.cycle(dtypes), itertools.cycle(layouts), range(count), strict=False)
    return [Leaf(*each) for each in pairs] * 2
