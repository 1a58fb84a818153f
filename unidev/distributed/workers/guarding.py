"""Processes that end with the one that started them, however that ends."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int) -> None:
    """Let Linux kill this process when ``parent``, which has started it, ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it has ended meanwhile
        os._exit(1)


def main() -> None:
    """``main PARENT ARGUMENT …``: run Python with these arguments, guarded."""
    parent, *arguments = sys.argv[1:]
    end_with_parent(int(parent))
    os.execv(sys.executable, [sys.executable, *arguments])  # noqa: S606  our own interpreter
