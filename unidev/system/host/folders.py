"""Folders of a run's own in the temporary directory, named by the process that owns them.

A process that is killed leaves its own behind: the next start deletes it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX = "unidev-run-"


@contextmanager
def own_folder() -> Iterator[str]:
    """An empty folder, deleted afterwards; deletes this user's whose processes have ended."""
    sweep()
    folder = tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sweep() -> None:
    """Delete the folders of this user's processes that have ended."""
    import psutil

    for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        owner = left.name.removeprefix(PREFIX).partition("-")[0]
        if owner.isdecimal() and _is_own(left) and not psutil.pid_exists(int(owner)):
            shutil.rmtree(left, ignore_errors=True)


def _is_own(folder: Path) -> bool:
    with suppress(FileNotFoundError):  # another process sweeps as well
        status = folder.lstat()
        return not hasattr(os, "getuid") or status.st_uid == os.getuid()
    return False
