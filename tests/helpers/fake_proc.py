"""A ``/proc`` that is made up, for psutil."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_MEMORY = "MemTotal: 2000 kB\nMemFree: 10 kB\nMemAvailable: 500 kB\nBuffers: 0 kB\nCached: 0 kB\n"


def put_system(proc: Path) -> None:
    """500 of 2,000 KiB are free."""
    (proc / "stat").write_text("cpu 0 0 0 0 0 0 0 0 0 0\nbtime 1700000000\n")
    (proc / "meminfo").write_text(_MEMORY)


def put_process(
    proc: Path,
    pid: int,
    arguments: str = "python",
    *,
    pages: int = 1,
    uid: int | None = None,
    maps: str = "",
    files: tuple[str, ...] = (),
) -> None:
    """A process of this user, or of ``uid``, that was started with these ``arguments``."""
    uid = os.getuid() if uid is None else uid
    folder = proc / str(pid)
    (folder / "fd").mkdir(parents=True)
    name = arguments.split(maxsplit=1)[0][:15]  # as the kernel cuts it
    (folder / "stat").write_text(f"{pid} ({name}) S 1 {' '.join(['0'] * 48)}\n")
    (folder / "status").write_text(f"Name:\t{name}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
    (folder / "statm").write_text(f"999 {pages} 1 1 0 1 0\n")
    (folder / "cmdline").write_text("\0".join([*arguments.split(), ""]))
    (folder / "maps").write_text(maps)
    for number, file in enumerate(files):
        (folder / "fd" / str(number)).symlink_to(file)
