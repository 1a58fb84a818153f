"""Trees of tensors, drawn: to be reduced, split, gathered, differentiated, stored and placed.

A tree has 1 to 20 leaves of drawn dtypes, layouts and values and of shapes from a pool, in
containers of drawn nesting, some leaves at two places. Its values depend only on the seeds of its
leaves, so what a message says of a leaf is enough to make it again.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

import unidev
from unidev_conformance.kit.inputs import samples, shapes
from unidev_conformance.kit.inputs.containers import Point
from unidev_conformance.kit.inputs.strategies import pick, some

if TYPE_CHECKING:
    from unidev.device import Device
    from unidev_conformance.kit.workbench import Workbench

    Array = np.ndarray[Any, Any]
    Random = np.random.Generator
    Tensor = Any

MOST_LEAVES = 40
CONTIGUOUS, ROWS = "contiguous", "rows of a larger one"
SPARE_ROWS = 3
"""Rows of the larger tensor around ``ROWS``: one before them, the others after."""


@dataclass(frozen=True)
class Leaf:
    """A tensor to make, several times with other values."""

    dtype: str
    shape: tuple[int, ...]
    """For a view of a matrix, the shape of that matrix."""
    layout: str = CONTIGUOUS
    """``CONTIGUOUS``, ``ROWS``, or a name that ``Probe.views`` gives."""
    seed: int = 0
    filled: tuple[float, ...] = ()
    """The value of all elements in the first tree, the second, and so on; empty: drawn ones."""
    is_bits: bool = False
    """Whether its values are any bits: for copies, not for arithmetic."""

    def __str__(self) -> str:
        values = f"filled with {self.filled}" if self.filled else f"seed {self.seed}"
        return f"{self.dtype} {self.shape}, {self.layout}, {values}"

    def values(self, number: int = 0, *, spare_rows: int = 0) -> Array:
        """The values in tree ``number``; those of bfloat16 as float32, which NumPy has."""
        shape = (self.shape[0] + spare_rows, *self.shape[1:]) if spare_rows else self.shape
        if self.filled:
            return np.full(shape, self.filled[number % len(self.filled)], self.host_dtype)
        rng = np.random.Generator(np.random.Philox([self.seed, number]))
        make = _bits if self.is_bits else _numbers
        values: Array = make(rng, self.dtype, math.prod(shape)).reshape(shape)
        return values

    @property
    def host_dtype(self) -> np.dtype[Any]:
        """The dtype of the values on the host."""
        return np.dtype(self.dtype if samples.is_numpy_dtype(self.dtype) else "float32")

    def made(self, bench: Workbench, device: Device, number: int = 0) -> Tensor:
        """The tensor of tree ``number`` on ``device``, in its layout."""
        return self.made_with_base(bench, device, number)[0]

    def made_with_base(
        self, bench: Workbench, device: Device, number: int = 0
    ) -> tuple[Tensor, Tensor]:
        """As ``made``, and the tensor that it is a view of, if the framework has views."""
        values = self.values(number, spare_rows=SPARE_ROWS if self.layout == ROWS else 0)
        if samples.is_numpy_dtype(self.dtype):
            base = bench.make(values, device)
        else:
            base = unidev.array(values, dtype=self.dtype, device=device)
        if self.layout == CONTIGUOUS:
            return base, base
        if self.layout != ROWS:
            return bench.probe.views(base)[self.layout], base
        with device:  # not every framework's results follow their operands
            return base[1 : 1 + self.shape[0]], base


@dataclass(frozen=True)
class Tree:
    """Leaves, which of them stand at a second place, and the number that decides the nesting."""

    leaves: tuple[Leaf, ...]
    again: tuple[int, ...] = ()
    form: int = 0

    def __str__(self) -> str:
        return f"{len(self.leaves)} leaves, tied {list(self.again)}, form {self.form}"

    def tensors(self, bench: Workbench, device: Device, number: int = 0) -> list[Tensor]:
        """The tensors of tree ``number``."""
        return [leaf.made(bench, device, number) for leaf in self.leaves]

    def nested(self, tensors: Sequence[Tensor]) -> Any:
        """The container with these tensors, given like ``leaves``."""
        items = [*tensors, *(tensors[position] for position in self.again)]
        return _nested(items, random.Random(self.form))  # noqa: S311  no secret is made with it

    def places(self, container: Any) -> list[Any]:
        """Its leaves in the order of ``leaves``, then those of ``again``.

        Raises:
            AssertionError: there are more or fewer of them.
        """
        found = list(_leaves_of(container))
        wanted = len(self.leaves) + len(self.again)
        assert len(found) == wanted, f"{self}: {len(found)} leaves come back, not {wanted}"
        for place, position in enumerate(self.again, start=len(self.leaves)):
            assert found[place] is found[position], f"{self}: leaf {position} became two"
        return found

    def where(self, position: int) -> str:
        """The tree and one of its leaves, for messages."""
        return f"{self}, leaf {position}: {self.leaves[position]}"


def layouts(bench: Workbench) -> list[str]:
    """Every layout that the framework may have, dense ones twice as often."""
    views = bench.probe.views(bench.matrix(bench.cpu))
    return [CONTIGUOUS, CONTIGUOUS, ROWS, ROWS, *views]


@dataclass(frozen=True)
class Kinds:
    """The leaves that a tree may have."""

    dtypes: Sequence[str]
    within: Sequence[str] = (CONTIGUOUS,)
    """Their layouts."""
    most: int = 300
    """Elements of one."""
    is_bits: bool = False

    def leaf(self, rng: Random, dtypes: Sequence[str]) -> Leaf:
        """A leaf of one of these dtypes, in one of the layouts."""
        dtype, layout = pick(rng, dtypes), pick(rng, self.within)
        found = shapes.shape(rng, self.most)
        if layout == ROWS and not found:
            found = (1,)
        if layout not in (CONTIGUOUS, ROWS):
            # Not every framework can transpose booleans.
            layout = CONTIGUOUS if dtype == "bool" else layout
            found = shapes.matrix(rng)
        return Leaf(dtype, found, layout, int(rng.integers(2**16)), is_bits=self.is_bits)

    def tree(self, rng: Random, most_leaves: int = MOST_LEAVES // 2) -> Tree:
        """Few leaves, or as many as a small model has, of one to three dtypes.

        Not of all: each dtype is packed by itself, so it is compiled for, too; and XLA takes 15 ms
        for each leaf.
        """
        dtypes = some(rng, self.dtypes, 1, 3)
        few = min(4, most_leaves)
        is_small = most_leaves <= few or rng.integers(2)
        count = int(rng.integers(1, few + 1) if is_small else rng.integers(5, most_leaves + 1))
        found = tuple(self.leaf(rng, dtypes) for _ in range(count))
        tied = tuple(some(rng, range(count), 0, 2))
        return Tree(found, tied, int(rng.integers(2**16)))


def many(dtype: str) -> Tree:
    """As many leaves as there may be, of one dtype: beyond the length of any fixed table."""
    return Tree(tuple(Leaf(dtype, (number % 5, 3), seed=number) for number in range(MOST_LEAVES)))


def within(tree: Tree, dtypes: Sequence[str]) -> Tree:
    """``tree`` without leaves of other dtypes; if it has no others, all in the first of them."""
    kept = [number for number, leaf in enumerate(tree.leaves) if leaf.dtype in dtypes]
    if not kept:
        return replace(tree, leaves=tuple(replace(x, dtype=dtypes[0]) for x in tree.leaves))
    again = tuple(kept.index(number) for number in tree.again if number in kept)
    return Tree(tuple(tree.leaves[number] for number in kept), again, tree.form)


def with_a_large_one(tree: Tree, size: int) -> Tree:
    """``tree`` with a first leaf of ``size`` elements."""
    first = replace(tree.leaves[0], shape=(size,), layout=CONTIGUOUS)
    return replace(tree, leaves=(first, *tree.leaves[1:]))


def numbers_in(bench: Workbench, x: Tensor, dtype: str) -> Array:
    """The numbers of ``x``, read by the probe; those of bfloat16 as float32."""
    content, shape = bench.probe.read(x), tuple(x.shape)
    if samples.is_numpy_dtype(dtype):
        return np.frombuffer(content, dtype).reshape(shape)
    bits = np.frombuffer(content, "uint16").astype("uint32") << 16
    return bits.view("float32").reshape(shape)


def rounded_to(dtype: str, values: Array) -> Array:
    """``values`` in ``dtype``, to the nearest, ties to even; bfloat16 stays float32."""
    if samples.is_numpy_dtype(dtype):
        with np.errstate(all="ignore"):
            return values.astype(dtype)
    bits = values.astype("float32").view("uint32").astype("uint64")
    even = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    rounded: Array = even.astype("uint32").view("float32")
    return np.where(np.isnan(values), np.float32("nan"), rounded)


def _numbers(rng: np.random.Generator, dtype: str, count: int) -> Array:
    """Numbers to compute with: any integers; normal floating-point numbers of many magnitudes."""
    if dtype == "bool" or "int" in dtype:
        return _bits(rng, dtype, count)
    if dtype.startswith("complex"):
        part = _numbers(rng, f"float{int(dtype[7:]) // 2}", 2 * count)
        return part.view(dtype)
    scales = np.exp2(rng.integers(-3, 9, count))
    return rounded_to(dtype, rng.standard_normal(count) * scales)


def _bits(rng: np.random.Generator, dtype: str, count: int) -> Array:
    """Any bits, among them those that a careless copy changes."""
    if dtype == "bool":
        return rng.integers(0, 2, count).astype(bool)
    if samples.is_numpy_dtype(dtype):
        values: Array = np.frombuffer(rng.bytes(count * np.dtype(dtype).itemsize), dtype).copy()
    else:  # bfloat16, whose NaNs a conversion may change
        values = (np.frombuffer(rng.bytes(2 * count), "uint16").astype("uint32") << 16).view("f4")
        values = np.where(np.isnan(values), np.float32(1.5), values)
    special = samples.telling_bits(dtype)
    if count:
        values[rng.integers(count, size=len(special))] = special
    return values


def _nested(items: list[Any], rng: random.Random) -> Any:
    if len(items) == 1 and rng.random() < 0.5:
        return items[0]
    runs, start = [], 0
    while start < len(items):
        stop = min(len(items), start + rng.choice((1, 1, 1, 2, 5, len(items))))
        run = items[start:stop]
        # A run of all would nest without end.
        runs.append(run[0] if len(run) == 1 else _nested(run, rng) if start else [*run])
        start = stop
    if rng.random() < 0.3:
        runs.append("no tensor")
    if len(runs) == 2:
        return rng.choice((Point(*runs), runs, tuple(runs), dict(zip("ba", runs, strict=True))))
    by_name = {f"{len(runs) - number}.x": run for number, run in enumerate(runs)}
    return rng.choice((runs, tuple(runs), by_name))


def _leaves_of(container: Any) -> Iterator[Any]:
    if isinstance(container, (list, tuple, Mapping)):
        for each in container.values() if isinstance(container, Mapping) else container:
            yield from _leaves_of(each)
    elif not isinstance(container, str):
        yield container
