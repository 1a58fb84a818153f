"""This user's processes: their names, what they have loaded, and how much memory they hold.

Reports nothing about other users' processes, and never a command line: it may hold a password.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from unidev.system.extras import is_complete
from unidev.system.facts import Process
from unidev.system.wording import one_line
from unidev.values import MemoryHolder

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psutil

_OPEN_ONCE_INITIALISED = ("/dev/nvidia-uvm", "/dev/kfd", "/dev/dxg")
"""CUDA and ROCm open these on initialisation; listing GPUs through the driver does not."""


def this_process() -> Process:
    """The current process, and whether it was forked from one that has a GPU open."""
    pid, parent = os.getpid(), os.getppid()
    arguments = _arguments(pid)
    return Process(
        pid,
        parent,
        # A newly started process, also by multiprocessing's spawn, has other arguments.
        is_forked=bool(arguments) and arguments == _arguments(parent),
        holds_gpu=initialised_by(pid),
        parent_holds_gpu=initialised_by(parent),
    )


def describe_process(pid: int) -> tuple[str | None, tuple[str, ...]]:
    """The name and the shared libraries of a process, if it is this user's and psutil is there."""
    if is_complete("hardware"):
        import psutil

        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            if _is_own(process):
                return _name(process), _libraries(pid)
    return None, ()


def largest_processes(count: int) -> list[MemoryHolder]:
    """This user's processes that use the most host memory, largest first."""
    import psutil

    found = []
    for process in own_processes():
        with contextlib.suppress(psutil.Error):  # it has ended, or is hidden
            found.append(MemoryHolder(process.pid, _name(process), process.memory_info().rss))
    return sorted(found, key=lambda each: each.used_bytes or 0, reverse=True)[:count]


def own_processes() -> Iterator[psutil.Process]:
    """This user's processes."""
    import psutil

    pids: list[int] = []
    with contextlib.suppress(OSError, IndexError):  # /proc is missing or empty
        pids = psutil.pids()
    for pid in pids:
        with contextlib.suppress(psutil.Error):  # it has ended, or is hidden
            process = psutil.Process(pid)
            if _is_own(process):
                yield process


def _name(process: psutil.Process) -> str:
    # psutil completes a name of 15 characters from the command line, which a process may replace
    # by a title: `trainer-of-nets --token=…`.
    name = process.name()
    return one_line(name[:15] + name[15:].partition(" ")[0])


def _is_own(process: psutil.Process) -> bool:
    import psutil

    if hasattr(process, "uids"):
        return process.uids().real == os.getuid()
    return process.username() == psutil.Process().username()  # Windows


def _arguments(pid: int) -> list[str]:
    if is_complete("hardware"):
        import psutil

        with contextlib.suppress(psutil.Error, OSError):
            return psutil.Process(pid).cmdline()
    return []


def _libraries(pid: int) -> tuple[str, ...]:
    # psutil's memory_maps() sums every page, which takes seconds for a process with a framework.
    try:
        maps = (_proc() / str(pid) / "maps").read_text(encoding="utf-8", errors="replace")
    except OSError:  # it has ended, or the system has no /proc
        return ()
    files = {line.rpartition("/")[2] for line in maps.splitlines() if "/" in line}
    return tuple(sorted(name for name in files if ".so" in name))


def environment_at_start() -> dict[str, str]:
    """The environment that this process began with; the current one where that is not known."""
    if is_complete("hardware"):
        import psutil

        with contextlib.suppress(psutil.Error, OSError):
            return psutil.Process().environ()
    return dict(os.environ)


def open_gpu_files(pid: int) -> tuple[str, ...]:
    """The device files that a process of this user has open; none where there is no ``/proc``."""
    # psutil's open_files() lists regular files only.
    held = set()
    with contextlib.suppress(OSError):  # another user's process, or a system without /proc
        for each in (_proc() / str(pid) / "fd").iterdir():
            with contextlib.suppress(OSError):  # closed meanwhile, like that of this listing
                held.add(os.readlink(each))
    return tuple(sorted(name for name in held if name.startswith("/dev/")))


def initialised_by(pid: int) -> tuple[str, ...]:
    """The files of drivers that a process of this user has open, once it has initialised them."""
    held = open_gpu_files(pid)
    return tuple(name for name in _OPEN_ONCE_INITIALISED if name in held)


def _proc() -> Path:
    import psutil

    return Path(getattr(psutil, "PROCFS_PATH", "/proc"))
