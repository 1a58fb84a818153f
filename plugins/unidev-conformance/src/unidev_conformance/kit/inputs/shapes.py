"""The few shapes of what checks compute with.

A framework that compiles (JAX) does so for each operation, shape, dtype and device anew, in 30 to
190 ms. So tensors that checks add, pack, split, store or train with have shapes from a small pool,
and a shape that was met is met again; their values, dtypes, layouts, devices and containers are
drawn. Copies need no compiler, and come in any size (``drawing``, ``strategies.size``).

The pool has what kernels treat differently: no element and one, no axis and four, a vector
register's length and one that leaves a tail, a power of two, and more than a block.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from unidev_conformance.kit.inputs.strategies import pick

if TYPE_CHECKING:
    import numpy as np

    Random = np.random.Generator

SHAPES = ((), (0,), (1,), (67,), (3, 5), (2, 128), (4, 0, 3), (1, 2, 3, 47))
MATRICES = ((2, 3), (5, 4), (9, 7))
"""Those that have views: two rows and columns at least."""
SIZES = (0, 1, 3, 16, 67, 257, 1_025, 70_001)
"""Elements of one axis; the largest number is more than any block in which kernels work."""
ROWS = (3, 16, 67)
"""The numbers of rows of batches for up to nine devices."""
FEW_ROWS = (1, 2, 3, 5)
"""Those of batches to train with; split among two to four devices, shards have so many again."""
BATCHES = ((5,), (2, 1), (5, 3), (3, 301))
"""Shapes of tensors whose shards have ``FEW_ROWS``."""


def shape(rng: Random, most: int) -> tuple[int, ...]:
    """Draw a shape of 0 to 4 axes, also without elements."""
    found: tuple[int, ...] = pick(rng, [each for each in SHAPES if math.prod(each) <= most])
    return found


def matrix(rng: Random) -> tuple[int, ...]:
    """Draw the shape of a matrix that has views."""
    found: tuple[int, ...] = pick(rng, MATRICES)
    return found


def size(rng: Random, least: int = 0, most: int = SIZES[-1]) -> int:
    """Draw a number of elements."""
    return int(pick(rng, [each for each in SIZES if least <= each <= most]))
