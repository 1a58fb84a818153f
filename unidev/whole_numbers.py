"""Whole numbers that a caller gives: indexes, sizes, seeds."""

from __future__ import annotations

import operator
import sys


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
