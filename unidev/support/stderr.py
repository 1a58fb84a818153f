"""Lines of unidev's own on stderr."""

from __future__ import annotations

import contextlib
import sys


def write_line(text: str) -> None:
    """Write ``unidev: text``, a complete line, where there is a stderr.

    A program must not fail because it has closed its stderr, or the reader is gone.
    """
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"unidev: {text}\n")
        sys.stderr.flush()
