"""What is printed while workers run: what ``run`` itself reports, and what workers print."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO


def say(text: str) -> None:
    """Print one line on stderr, apart from what the workers print."""
    show(f"unidev: {text}", sys.stderr)


def show(line: str, stream: TextIO | None) -> None:
    """Print one line, unless the stream is closed: ``print`` would take stdout instead."""
    if stream is not None:
        print(line, file=stream, flush=True)
