"""Options and checks shared by several commands."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from unidev.system.atomic_file import check_writable
from unidev.system.extras import lack
from unidev.system.wording import shown

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Command = TypeVar("Command", bound="Callable[..., Any]")


class Integer(click.IntRange):
    """An integer from ``min`` to ``max``; without ``max``, a non-negative one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The integer."""
        try:
            number: int = super().convert(value, param, ctx)
        except click.BadParameter:
            wanted = f"an integer from {self.min} to {self.max}"
            _refuse(param, wanted if self.max else "a non-negative integer", value, ctx)
        return number


class Seconds(click.FloatRange):
    """A positive, finite number of seconds."""

    def __init__(self) -> None:
        super().__init__(min=0, min_open=True)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number; ``nan`` passes any range check."""
        seconds = math.nan
        with suppress(click.BadParameter):
            seconds = super().convert(value, param, ctx)
        if not math.isfinite(seconds):
            _refuse(param, "a positive number of seconds", value, ctx)
        return seconds


def _refuse(
    param: click.Parameter | None, wanted: str, value: object, ctx: click.Context | None
) -> NoReturn:
    name = "a value" if param is None else param.opts[0]
    raise click.UsageError(f"{name} must be {wanted}, not {shown(value)}.", ctx) from None


def timeout(default: float, help_text: str) -> Callable[[Command], Command]:
    """The option ``--timeout``, in seconds."""
    return click.option(
        "--timeout", "timeout_s", type=Seconds(), default=default, show_default=True, metavar="S",
        help=help_text,
    )  # fmt: skip


def in_options(text: str) -> str:
    """An error about arguments, such as ``backend=…``, in words of this command's options."""
    for option in (each.opts[0] for each in click.get_current_context().command.params):
        if option.startswith("--"):
            name = option[2:].replace("-", "_")
            text = text.replace(f"{name}=…", option)
            text = re.sub(rf"\b{name}=", f"{option} ", text)
    return text


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
