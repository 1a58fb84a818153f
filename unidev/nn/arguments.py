"""Sizes and fractions that layers are told, checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unidev.errors import InvalidDataError
from unidev.support.numbers import real_number, whole_number
from unidev.support.wording import shown

if TYPE_CHECKING:
    Pair = int | tuple[int, int]
    """A whole number for both, or ``(height, width)``."""


def size(name: str, value: object, *, least: int = 1) -> int:
    """``value`` as a whole number from ``least``.

    Raises:
        InvalidDataError: it is none.
    """
    number = whole_number(value)
    if number is None or number < least:
        raise InvalidDataError(f"{name} is a whole number from {least}, not {shown(value)}.")
    return number


def pair(name: str, value: object, *, least: int = 1) -> tuple[int, int]:
    """``value``, or it twice, as ``(height, width)``.

    Raises:
        InvalidDataError: it is neither a whole number from ``least`` nor two of them.
    """
    if not isinstance(value, (tuple, list)):
        number = size(name, value, least=least)
        return number, number
    if len(value) != 2:
        raise InvalidDataError(f"{name} is a whole number or a pair of them, not {shown(value)}.")
    return size(name, value[0], least=least), size(name, value[1], least=least)


def fraction(name: str, value: object) -> float:
    """``value`` as a number from 0 to below 1.

    Raises:
        InvalidDataError: it is none.
    """
    number = real_number(value)
    if number is None or not 0 <= number < 1:
        raise InvalidDataError(f"{name} is a number from 0 to below 1, not {shown(value)}.")
    return number
