"""Each worker combines a part of what all have: which one, and in which order."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    Array = np.ndarray[Any, Any]


def parts_of(count: int, size: int) -> list[slice]:
    """The part of so many elements that each of ``size`` workers combines, by rank."""
    ends = [count * rank // size for rank in range(size + 1)]
    return [slice(start, end) for start, end in pairwise(ends)]


def combined(arrays: Sequence[Array], ufunc: np.ufunc) -> Array:
    """All arrays as one, in new memory, in the order given: that of ranks, whoever came first."""
    total: Array = arrays[0].copy()
    for other in arrays[1:]:
        ufunc(total, other, out=total)
    return total
