"""Processes that end with the one that started them, however that ends."""

from __future__ import annotations

import ctypes
import os
import secrets
import select
import signal
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from unidev.system.processes import own_processes
from unidev.system.settings import RUN_MARKS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psutil

_PR_SET_PDEATHSIG = 1
_LOOK_S = 1.0
_BETWEEN_S = 0.02
_SWEEP_S = 10.0


def new_mark() -> str:
    """A mark that no other run has."""
    return secrets.token_hex(16)


def with_mark(mark: str) -> dict[str, str]:
    """The variable for what belongs to the run of that mark, and to those that it runs in."""
    outer = os.environ.get(RUN_MARKS)
    return {RUN_MARKS: mark if outer is None else f"{outer}:{mark}"}


def end_marked(mark: str) -> None:
    """Kill this user's processes that have ``mark`` in their environment; waits until none is left.

    Finds what no group or session does: a daemon, a child in a session of its own. A process whose
    environment was cleared is not found.
    """
    import psutil

    until = time.monotonic() + _SWEEP_S  # one that does not end waits in the kernel
    is_sure = False
    while time.monotonic() < until:
        found = list(_marked(mark))
        if not found and is_sure:
            return
        is_sure = not found  # twice: a process has no environment while it starts a program
        for process in found:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        time.sleep(_BETWEEN_S)


def end_with_parent(parent: int) -> None:
    """Let Linux kill this process when ``parent``, which has started it, ends.

    Other systems cannot: there a worker ends when it reads the end of its pipe.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it has ended meanwhile
        os._exit(1)


def main() -> None:
    """``main PARENT ARGUMENT …``: run Python with these arguments, guarded."""
    parent, *arguments = sys.argv[1:]
    end_with_parent(int(parent))
    os.execv(sys.executable, [sys.executable, *arguments])  # noqa: S606  our own interpreter


def keep_guard() -> None:
    """``keep_guard PARENT MARK``: wait for the end of the parent, then kill what has its mark.

    A worker cannot: the system kills it with its parent, before it can end what it has started.
    Stdin is a pipe from the parent, which says there that no guard is needed any more; the end of
    the pipe is noticed at once. The parent is looked for, too: a fork of it may hold the pipe open.
    """
    import psutil

    parent, mark = sys.argv[1:]
    if os.fork():  # Ray kills the children of an actor that ends, and this one is to survive it
        os._exit(0)
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(int(parent))
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            if select.select([0], [], [], _LOOK_S)[0]:
                if os.read(0, 1):
                    return
                break
    end_marked(mark)


def _marked(mark: str) -> Iterator[psutil.Process]:
    import psutil

    for process in own_processes():
        with suppress(psutil.Error, OSError):  # it has ended, or is hidden
            if mark in process.environ().get(RUN_MARKS, "").split(":"):
                yield process
