"""Processes that inherit a variable of a test, looked up in ``/proc``."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

LIMIT_S = 90.0
"""Generous: the machine may be busy."""


def all_gone(value: str) -> bool:
    """Whether no marked process is left, at the latest after a while."""
    until = time.monotonic() + LIMIT_S
    while marked(value) and time.monotonic() < until:
        time.sleep(0.05)
    return not marked(value)


def marked(value: str) -> list[str]:
    """The command lines of the other living processes with that mark."""
    return list(_found(value).values())


def end_marked(value: str) -> None:
    """Kill them."""
    for pid in _found(value):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _found(value: str) -> dict[int, str]:
    """Their command lines, by number."""
    folders = {int(folder.name): folder for folder in Path("/proc").glob("[0-9]*")}
    del folders[os.getpid()]
    commands = {pid: _command_if_marked(folder, value) for pid, folder in folders.items()}
    return {pid: command for pid, command in commands.items() if command}


def _command_if_marked(folder: Path, value: str) -> str:
    try:
        if value.encode() in (folder / "environ").read_bytes():
            return (folder / "cmdline").read_text(errors="replace")  # empty for a zombie
    except OSError:  # it has ended, or is another user's
        pass
    return ""
