"""Options and checks shared by several commands."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

import click

from unidev.support.atomic_file import check_writable
from unidev.support.extras import lack

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Command = TypeVar("Command", bound="Callable[..., Any]")


def finite(_context: object, _option: object, seconds: float) -> float:
    """An option callback that rejects ``inf`` and ``nan``, which passes any range check."""
    if not math.isfinite(seconds):
        raise click.BadParameter(f"{seconds} is not a finite number of seconds.")
    return seconds


def timeout(default: float, help_text: str) -> Callable[[Command], Command]:
    """The option ``--timeout``, in seconds."""
    return click.option(
        "--timeout", "timeout_s", type=click.FloatRange(min=0, min_open=True), default=default,
        callback=finite, show_default=True, metavar="S", help=help_text,
    )  # fmt: skip


def need(extra: str, what: str, also: str = "") -> None:
    """Refuse, beginning with ``what``, unless the modules of ``extra`` are installed."""
    reason = lack(extra)
    if reason is not None:
        raise click.UsageError(f"{what}: {reason}{also}")


def need_writable(file: Path) -> None:
    """Refuse a file that cannot be written: before the run, not after minutes of it."""
    if not file.absolute().parent.is_dir():
        raise click.UsageError(f"{file}: there is no folder {str(file.parent)!r}.")
    try:
        check_writable(file)
    except OSError as error:
        raise click.UsageError(f"{file} cannot be written: {error.strerror}.") from error
