"""The threads that read ahead for ``prefetch``."""

from __future__ import annotations

import threading

READS_AHEAD = "unidev-prefetch"


def reading_threads() -> list[threading.Thread]:
    """Those that are alive."""
    return [each for each in threading.enumerate() if each.name == READS_AHEAD]
