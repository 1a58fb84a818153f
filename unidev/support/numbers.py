"""Numbers that a caller gives: indexes, sizes, seeds, rates."""

from __future__ import annotations

import math
import operator
import sys

from unidev.errors import InvalidDataError
from unidev.support.wording import shown


def whole_number(value: object, most: int = sys.maxsize) -> int | None:
    """``value`` as an int from 0 to ``most``, or None. A bool is none, though Python counts it.

    Takes NumPy's ints, and whatever else says by ``__index__`` that it is one.
    """
    if isinstance(value, bool):
        return None
    try:
        number = operator.index(value)  # type: ignore[arg-type]  # TypeError is the question
    except Exception:  # noqa: BLE001  whatever a stranger's __index__ raises, it is no number
        return None
    return number if 0 <= number <= most else None


def sizes_of(shape: object) -> tuple[int, ...]:
    """A shape, given as a number or a tuple or list of them, as a tuple of ints.

    Raises:
        InvalidDataError: it is none, or has more elements than there can be.
    """
    given = shape if isinstance(shape, (tuple, list)) else (shape,)
    sizes = tuple(size for size in map(whole_number, given) if size is not None)
    if len(sizes) < len(given) or math.prod(sizes) > sys.maxsize:
        raise InvalidDataError(
            "a shape is a whole number from 0, or a tuple of them, of 2**63 - 1 elements at most, "
            f"not {shown(shape)}."
        )
    return sizes


def real_number(value: object) -> float | None:
    """``value`` as a float, or None. A bool is none; NumPy's numbers are, tensors are not."""
    from numbers import Real

    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        return float(value)
    except OverflowError:
        return None
