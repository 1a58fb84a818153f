"""Lines on stderr and stdout, also where a stream is closed or lacks a character."""

from __future__ import annotations

import contextlib
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO


def say(text: str) -> None:
    """Print one line of unidev's own on stderr, apart from what the program prints."""
    show(f"unidev: {text}", sys.stderr)


def show(line: str, stream: TextIO | None) -> None:
    """Print one line, unless the stream is closed: ``print`` would take stdout instead.

    What the stream's encoding lacks is escaped: that is not a reason to end a run.
    """
    if stream is not None:
        encoding = getattr(stream, "encoding", None) or "utf-8"
        text = line.encode(encoding, "backslashreplace").decode(encoding)
        print(text, file=stream, flush=True)


def say_if_possible(text: str) -> None:
    """``say``, or nothing if the program has closed its stderr, or its reader is gone."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        say(text)
