"""What ``run`` itself reports to the user."""

from __future__ import annotations

import sys


def say(text: str) -> None:
    """Print one line on stderr, apart from what the workers print."""
    print(f"unidev: {text}", file=sys.stderr, flush=True)  # noqa: T201
