"""Checks for what a caller passes: indexes, sizes, seeds, rates, flags, paths.

Those that return a value without None raise ``InvalidDataError`` for anything else; it shows that.
"""

from __future__ import annotations

import math
import operator
import os
import sys

from unidev.errors import InvalidDataError
from unidev.system.wording import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    Pair = int | tuple[int, int]
    """One integer for both, or ``(height, width)``."""


def non_negative_integer(value: object, most: int = sys.maxsize) -> int | None:
    """``value.__index__()`` if it is from 0 to ``most``; None for anything else, and for a bool."""
    if isinstance(value, bool):
        return None
    try:
        number = operator.index(value)  # type: ignore[arg-type]  # a TypeError is expected
    except Exception:  # noqa: BLE001  a third-party __index__ may raise anything
        return None
    return number if 0 <= number <= most else None


def sizes_of(shape: object) -> tuple[int, ...]:
    """A shape, given as an integer or a tuple or list of integers, as a tuple of ints."""
    given = shape if isinstance(shape, (tuple, list)) else (shape,)
    sizes = tuple(size for size in map(non_negative_integer, given) if size is not None)
    if len(sizes) < len(given) or math.prod(sizes) > sys.maxsize:
        raise InvalidDataError(
            "a shape must be a non-negative integer or a tuple of them, with at most 2**63 - 1 "
            f"elements, not {shown(shape)}."
        )
    return sizes


def real_number(value: object) -> int | float | None:
    """``value`` as a Python int or float, or None, for example for a bool, a complex or a tensor.

    Accepts NumPy's numbers and every other ``numbers.Real``. None also for a number beyond the
    range of a float.
    """
    if type(value) is float:
        return value
    from numbers import Integral, Real

    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return int(value) if isinstance(value, Integral) else number


def flag(name: str, value: object) -> bool:
    """``value`` if it is a bool, and not a tensor, say, whose truth may be undefined."""
    if not isinstance(value, bool):
        raise InvalidDataError(f"{name} must be True or False, not {shown(value)}.")
    return value


def choice(name: str, value: object, options: Sequence[str]) -> str:
    """``value`` if it is one of the strings ``options``.

    Raises:
        InvalidDataError: it is anything else, such as an array, which compares by element.
    """
    if not isinstance(value, str) or value not in options:
        raise InvalidDataError(f"{name} must be one of {', '.join(options)}, not {shown(value)}.")
    return value


def checked_path(path: object) -> str:
    """The user's ``path`` as text."""
    try:
        file = os.fsdecode(path)  # type: ignore[arg-type]
    except TypeError:
        file = "\0"
    if not is_path(file):
        raise InvalidDataError(
            f"a path must be a string or os.PathLike that a file can have, not {shown(path)}."
        )
    return file


def is_path(text: str) -> bool:
    """Whether the system takes it for a path: no null character, no surrogate of its own."""
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def seconds_in(variable: str, otherwise: float) -> float:
    """The positive number of seconds in an environment variable; ``otherwise`` if it is unset.

    Raises:
        InvalidDataError: it has another value.
    """
    text = os.environ.get(variable, "").strip()
    return seconds_of(variable, text, otherwise) if text else otherwise


def seconds_of(variable: str, text: str, otherwise: float) -> float:
    """The positive number of seconds that is the text of a variable."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise InvalidDataError(
            f"{variable}={shown(text)} must be a positive number of seconds, such as "
            f"{otherwise:g}, which it is where the variable is unset."
        )
    return seconds


def size(name: str, value: object, *, least: int = 1) -> int:
    """``value`` as a positive integer; with ``least=0``, as a non-negative one."""
    number = non_negative_integer(value)
    if number is None or number < least:
        sort = "positive" if least else "non-negative"
        raise InvalidDataError(f"{name} must be a {sort} integer, not {shown(value)}.")
    return number


def pair(name: str, value: object, *, least: int = 1) -> tuple[int, int]:
    """``value`` as ``(height, width)``; a single integer stands for both."""
    if not isinstance(value, (tuple, list)):
        number = size(name, value, least=least)
        return number, number
    if len(value) != 2:
        raise InvalidDataError(f"{name} must be an integer or a pair of them, not {shown(value)}.")
    return size(name, value[0], least=least), size(name, value[1], least=least)


def fraction(name: str, value: object) -> float:
    """``value`` as a number with ``0 <= value < 1``."""
    number = real_number(value)
    if number is None or not 0 <= number < 1:
        raise InvalidDataError(f"{name} must be at least 0 and less than 1, not {shown(value)}.")
    return float(number)
