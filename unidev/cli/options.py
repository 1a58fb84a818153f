"""Options and checks shared by several commands."""

from __future__ import annotations

import math
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

import click

from unidev.support.atomic_file import check_writable

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


def need(distributions: tuple[str, ...], extra: str, who: str, also: str = "") -> None:
    """Refuse, with the command that installs them, unless all the distributions are there."""
    missing = [each for each in distributions if find_spec(each) is None]
    if missing:
        raise click.UsageError(
            f"{who} {', '.join(missing)}. In unidev's repository, run: "
            f"pip install '.[{extra}]'{also}"
        )


def need_writable(file: Path) -> None:
    """Refuse a file that cannot be written: before the run, not after minutes of it."""
    if not file.absolute().parent.is_dir():
        raise click.UsageError(f"{file}: there is no folder {str(file.parent)!r}.")
    try:
        check_writable(file)
    except OSError as error:
        raise click.UsageError(f"{file} cannot be written: {error.strerror}.") from error
