"""The stderr with which pytest started: what takes long is reported there, past pytest's capture.

Without it, a simulator that is built during a test would look like a test that hangs.
"""

from __future__ import annotations

import contextlib
import os
from typing import TextIO


def _kept() -> int | None:
    """A copy of the process's stderr, made before pytest redirects it; None if it has none."""
    try:
        return os.dup(2)
    except OSError:
        return None


_kept_stderr = _kept()


def stderr() -> TextIO | None:
    """That stream while pytest keeps what is printed; None while stderr is the process's own."""
    if _kept_stderr is None:
        return None
    with contextlib.suppress(OSError):  # closed meanwhile
        if not os.path.samestat(os.fstat(2), os.fstat(_kept_stderr)):
            return open(_kept_stderr, "w", encoding="utf-8", errors="replace", closefd=False)
    return None
