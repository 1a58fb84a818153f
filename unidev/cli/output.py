"""Output: coloured and wrapped in a terminal, plain and unwrapped in a pipe."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from pathlib import Path

_PIPE_WIDTH = 10_000
"""In a pipe nothing is wrapped or cut, for programs and for `less -S`."""


def console() -> Console:
    """The console for results; rich itself respects NO_COLOR."""
    with contextlib.suppress(AttributeError, ValueError):  # stdout was replaced
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    is_terminal = sys.stdout.isatty()
    return Console(
        width=None if is_terminal else _PIPE_WIDTH,
        force_terminal=None if is_terminal else False,
        no_color=True if os.environ.get("NO_COLOR") or not is_terminal else None,
        highlight=False,
        emoji=False,
        markup=True,
        soft_wrap=not is_terminal,
    )


def write_file(path: Path, text: str) -> None:
    """Write ``text`` atomically, so that a full disk does not leave half a report."""
    if path.exists() and not path.is_file():  # write to a device or a pipe, do not replace it
        path.write_text(text, encoding="utf-8", newline="\n")
        return
    part = path.with_name(f"{path.name}.part")
    try:
        part.write_text(text, encoding="utf-8", newline="\n")
        part.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise
