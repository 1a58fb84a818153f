"""How messages show values, types and bytes."""

from __future__ import annotations


def shown(value: object) -> str:
    """``repr(value)`` for a message: short, and whatever a stranger's ``__repr__`` does."""
    from reprlib import Repr

    short = Repr()
    short.maxlevel = 2
    short.maxstring = short.maxother = short.maxlong = 100
    try:
        return short.repr(value)
    except Exception:  # noqa: BLE001  an int of 5000 digits raises here, and so may a stranger
        return f"<{kind_of(value)}>"


def kind_of(value: object) -> str:
    """The name of the type of ``value``, with its module unless it is a builtin."""
    return type_name(type(value))


def type_name(cls: type) -> str:
    """The name of ``cls``, with its module unless it is a builtin."""
    module = getattr(cls, "__module__", "")  # types made in C may have none
    return f"{module}.{cls.__qualname__}".removeprefix("builtins.").removeprefix(".")


def size(count: int) -> str:
    """Bytes for people; the exact number too."""
    if count < 2**20:
        return f"{count:,} bytes"
    unit, power = ("GiB", 30) if count >= 2**30 else ("MiB", 20)
    return f"{count / 2**power:,.1f} {unit} ({count:,} bytes)"
