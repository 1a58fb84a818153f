"""What Hypothesis draws: numbers that a dtype holds, runs of integers, tensors and containers."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st

from unidev.conformance.kit.inputs import samples
from unidev.conformance.kit.inputs.drawing import Drawn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypothesis.strategies import SearchStrategy

_FLOAT_BITS = {"float16": 16, "float32": 32, "float64": 64, "complex64": 32, "complex128": 64}
_OF_BFLOAT16 = (0.0, -0.0, 1.5, -2.0, 2.0**-120, 2.0**127, float("inf"), float("-inf"))


def numbers(dtype: str) -> SearchStrategy[Any]:
    """Python's numbers that ``dtype`` holds exactly, its limits often among them."""
    if dtype == "bool":
        return st.booleans()
    if dtype == "bfloat16":
        return st.sampled_from(_OF_BFLOAT16)
    if dtype in _FLOAT_BITS:
        parts = st.floats(width=_FLOAT_BITS[dtype], allow_nan=False)  # type: ignore[arg-type]
        if dtype.startswith("complex"):
            return st.builds(complex, parts, parts)
        return parts | st.just(-0.0)
    telling = [int(each) for each in samples.telling_bits(dtype)]
    return st.sampled_from(telling) | st.integers(telling[0], telling[1])


def filled(number: Any, dtype: str, count: int) -> bytes:
    """The bytes of ``count`` elements of ``dtype`` that are ``number``."""
    if dtype == "bfloat16":
        bits = np.full(count, number, "float32").view("uint32") >> 16
        return bits.astype("uint16").tobytes()
    return np.full(count, number, dtype).tobytes()


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


def runs(dtype: str) -> SearchStrategy[Run]:
    """Runs of integers that ``dtype`` holds, some beyond what floating-point numbers tell apart."""
    limits = np.iinfo(dtype)
    least, most = int(limits.min), int(limits.max)
    corners = [n for n in (0, 2**24, 2**53, most - 99, least + 99) if least <= n - 99 < n + 99]
    starts = st.sampled_from([n for n in corners if n + 99 <= most] or [0])
    return st.builds(Run, starts, st.sampled_from([1, 2, -1, 3]), st.integers(0, 33))


def sizes(most: int) -> SearchStrategy[int]:
    """Positive numbers of elements, half of them next to a power of two."""
    exponents = st.integers(0, most.bit_length() - 1)
    near = st.builds(lambda n, by: min(max(2**n + by, 1), most), exponents, st.integers(-1, 1))
    return near | st.integers(1, most)


@dataclass(frozen=True)
class Leaf:
    """A small tensor to make for a container; equal ones are one tensor."""

    dtype: str
    layout: str
    number: int

    def drawn(self) -> Drawn:
        """A tensor with that dtype and layout, whose values ``number`` tells from others."""
        values = samples.counting(_SHAPES.get(self.layout, (2, 3)))
        if self.dtype == "bool":
            values = values % (self.number + 2) < 1
        values = (values + self.number).astype(_numpy_name(self.dtype))
        return Drawn(values, self.dtype, self.layout, "in C order", False, None)


_SHAPES = {"rows": (5, 1, 1, 2), "reversed": (3, 2, 1, 2), "permuted": (2, 3, 2, 4)}


def _numpy_name(dtype: str) -> str:
    return dtype if samples.is_numpy_dtype(dtype) else "float32"


def trees(dtypes: Sequence[str], layouts: Sequence[str], most: int) -> SearchStrategy[Any]:
    """Nested dicts, lists and tuples with up to ``most`` leaves, wide ones and deep ones.

    Their leaves are a ``Leaf`` of any of the dtypes and layouts, some of them repeated, and things
    that are no tensors.
    """
    leaf = st.builds(
        Leaf, st.sampled_from(dtypes), st.sampled_from(layouts), st.integers(0, 30)
    )  # fmt: skip
    return st.lists(leaf, min_size=1, max_size=8).flatmap(lambda pool: _trees_of(pool, most))


def all_tied(dtypes: Sequence[str], layouts: Sequence[str], count: int) -> list[Leaf]:
    """Twice ``count`` leaves: each dtype and layout if they are so many, and each leaf repeated."""
    pairs = zip(itertools.cycle(dtypes), itertools.cycle(layouts), range(count))
    return [Leaf(*each) for each in pairs] * 2


def _trees_of(pool: list[Leaf], most: int) -> SearchStrategy[Any]:
    leaf = st.sampled_from(pool)
    wide = st.integers(1, most).flatmap(lambda n: st.lists(leaf, min_size=n, max_size=n))
    nested = st.recursive(
        leaf | st.sampled_from([None, 3, "text"]),
        lambda inner: st.one_of(
            st.lists(inner, max_size=4),
            st.lists(inner, max_size=4).map(tuple),
            st.dictionaries(st.sampled_from(["b", "a", "c", 1, None]), inner, max_size=4),
        ),
        max_leaves=most,
    )
    return wide | st.tuples(nested) | st.fixed_dictionaries({"b": wide, "a": nested})
