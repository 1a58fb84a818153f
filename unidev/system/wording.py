"""How messages show values, types, counts, bytes and seconds."""

from __future__ import annotations


def shown(value: object) -> str:
    """A short ``repr(value)`` for a message, from code of Python or unidev only.

    Third-party objects, also inside containers, are shown as ``<type>``: their ``__repr__`` may
    raise, block, or, for a tensor whose memory is gone, end the process.
    """
    if type(value) is str and len(value) <= 90 and value.isprintable():
        return repr(value)  # the key of a dict in a path, usually: each class below takes 10 µs
    from reprlib import Repr

    class Short(Repr):
        def repr1(self, x: object, level: int) -> str:
            if isinstance(x, type):
                return f"<class '{type_name(x)}'>"
            if type(x).__module__.partition(".")[0] in ("builtins", "unidev"):
                return super().repr1(x, level)
            return f"<{kind_of(x)}>"

    short = Short()
    short.maxlevel = 2
    short.maxstring = short.maxother = short.maxlong = 100
    try:
        return short.repr(value)
    except Exception:  # noqa: BLE001  an int of 5000 digits raises
        return f"<{kind_of(value)}>"


def error_text(error: BaseException) -> str:
    """``ValueError: its message``; the name alone of one whose message cannot be shown."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001  a third party's own __str__
        return type(error).__name__


def plain(text: str, kept: str = "\n\t") -> str:
    r"""``text`` without what a terminal obeys: characters that do not print become ``\\u001b``.

    The escapes are those of JSON, so that plain JSON has the same meaning.
    """
    if text.isprintable():
        return text
    from json import dumps

    return "".join(c if c.isprintable() or c in kept else dumps(c)[1:-1] for c in text)


def one_line(text: str, most: int = 300) -> str:
    """``plain`` text in one line; of a long one, the beginning and the end."""
    return _cut(plain(_cut(text, most), kept=""), most)  # escapes are longer; first, for speed


def _cut(text: str, most: int) -> str:
    end = most // 3
    return text if len(text) <= most else f"{text[: most - end - 1]}…{text[-end:]}"


def kind_of(value: object) -> str:
    """The name of the type of ``value``, with its module unless it is a builtin."""
    return type_name(type(value))


def type_name(cls: type) -> str:
    """The name of ``cls``, with its module unless it is a builtin."""
    module = getattr(cls, "__module__", "")  # types made in C may have none
    return f"{module}.{cls.__qualname__}".removeprefix("builtins.").removeprefix(".")


def count_text(count: int, noun: str) -> str:
    """``1 tensor``, ``2 tensors``, ``1,001 tensors``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def bytes_text(count: int) -> str:
    """``1 byte``, ``512 bytes``, ``1.5 KiB``, ``64 MiB``, ``1,024 GiB``.

    Binary units, as the frameworks use; rounded to one decimal, which is omitted if it is 0. This
    is how unidev shows bytes everywhere; attributes and JSON have the exact number.
    """
    if count < 2**10:
        return count_text(count, "byte")
    for power, unit in ((10, "KiB"), (20, "MiB"), (30, "GiB")):  # noqa: B007  the last one stays
        number = round(count / 2**power, 1)
        if number < 2**10:
            break
    return f"{number:,.1f}".removesuffix(".0") + f" {unit}"


_LEAST_WITHOUT_UNIT = 1 << 20
"""No GPU has less memory: of a smaller number the unit was forgotten."""


def bytes_in(text: str) -> int | None:
    """The number that ``bytes_text`` shows as ``text``, such as ``1.5 KiB``; None if it is none.

    A number without a unit is an integer of bytes. Spaces and upper case do not matter. A comma
    separates thousands: ``8,5 GiB``, which may mean 8.5, is none.
    """
    number, power = text.strip().lower(), 0
    for unit, its in (("kib", 10), ("mib", 20), ("gib", 30), ("bytes", 0), ("byte", 0)):
        if number.endswith(unit):
            number, power = number.removesuffix(unit).strip(), its
            break
    whole, point, decimals = number.partition(".")
    first, *thousands = whole.split(",")
    if thousands and (not 1 <= len(first) <= 3 or any(len(each) != 3 for each in thousands)):
        return None
    digits = "".join((first, *thousands, decimals))
    if not (digits.isascii() and digits.isdigit() and whole) or (point and not power):
        return None
    if len(digits) > 18:  # more than any memory; `int` refuses thousands of digits
        return None
    return (int(digits) << power) // int("1" + "0" * len(decimals))


def lacks_unit(text: str) -> bool:
    """Whether a size of a GPU's memory is a number without a unit, too small to be bytes."""
    return text.strip().isdigit() and 0 < (bytes_in(text) or 0) < _LEAST_WITHOUT_UNIT


def seconds_text(seconds: float) -> str:
    """``12.3 ms``: three significant digits, in s, ms, µs or ns."""
    for scale, unit in ((1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms"), (1.0, "s")):  # noqa: B007
        number = seconds / scale
        if number < 999.5:
            break
    return f"{number_text(number)} {unit}"


def number_text(number: float) -> str:
    """Three significant digits: ``0.123``, ``12.3``; from 100, all integer digits: ``1,234``."""
    return f"{number:,.0f}" if number >= 99.95 else f"{number:.3g}"
