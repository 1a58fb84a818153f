"""Checks for the sizes and fractions that layers take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unidev.errors import InvalidDataError
from unidev.support.arguments import non_negative_integer, real_number
from unidev.support.wording import shown

if TYPE_CHECKING:
    Pair = int | tuple[int, int]
    """One integer for both, or ``(height, width)``."""


def size(name: str, value: object, *, least: int = 1) -> int:
    """``value`` as a positive integer; with ``least=0``, as a non-negative one.

    Raises:
        InvalidDataError: it is not such an integer.
    """
    number = non_negative_integer(value)
    if number is None or number < least:
        sort = "positive" if least else "non-negative"
        raise InvalidDataError(f"{name} must be a {sort} integer, not {shown(value)}.")
    return number


def pair(name: str, value: object, *, least: int = 1) -> tuple[int, int]:
    """``value`` as ``(height, width)``; a single integer stands for both.

    Raises:
        InvalidDataError: it is neither a valid integer nor a pair of them.
    """
    if not isinstance(value, (tuple, list)):
        number = size(name, value, least=least)
        return number, number
    if len(value) != 2:
        raise InvalidDataError(f"{name} must be an integer or a pair of them, not {shown(value)}.")
    return size(name, value[0], least=least), size(name, value[1], least=least)


def fraction(name: str, value: object) -> float:
    """``value`` as a number with ``0 <= value < 1``.

    Raises:
        InvalidDataError: it is not such a number.
    """
    number = real_number(value)
    if number is None or not 0 <= number < 1:
        raise InvalidDataError(f"{name} must be at least 0 and less than 1, not {shown(value)}.")
    return float(number)
