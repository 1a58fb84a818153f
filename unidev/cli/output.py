"""Output: coloured and wrapped in a terminal, unwrapped in a pipe; harmless in both."""

from __future__ import annotations

import contextlib
import os
import sys
from shutil import get_terminal_size
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.segment import Segment

from unidev.system.wording import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import ConsoleOptions, RenderableType

_PIPE_WIDTH = 10_000
"""In a pipe nothing is wrapped or cut, for programs and for `less -S`."""


def console() -> Console:
    """The console for results; rich itself respects NO_COLOR."""
    with contextlib.suppress(AttributeError, ValueError):  # stdout was replaced
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    is_terminal = sys.stdout.isatty()
    # With COLUMNS=0, rich would print nothing.
    width = get_terminal_size().columns if os.environ.get("COLUMNS") == "0" else None
    return _PlainConsole(
        width=width if is_terminal else _PIPE_WIDTH,
        force_terminal=None if is_terminal else False,
        no_color=True if os.environ.get("NO_COLOR") or not is_terminal else None,
        highlight=False,
        emoji=False,
        markup=True,
        soft_wrap=not is_terminal,
    )


def say(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print ``text``; a name in it cannot control the terminal."""
    click.echo(plain(text), err=err, nl=nl)


class _PlainConsole(Console):
    """A console whose colours and movements are its own, never those of a name that it prints."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        """Everything that is printed passes here."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(plain(segment.text), segment.style)
