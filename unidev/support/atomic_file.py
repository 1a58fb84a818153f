"""Replaces a file completely, or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SUFFIX = ".unidev-part"
"""Of the incomplete file: ``.NAME.RANDOM.unidev-part``, beside the file that it will replace."""


@contextlib.contextmanager
def replacing(path: str) -> Iterator[IO[bytes]]:
    """A new file to write to, which takes the place of ``path`` when the block ends.

    It is on the disk before it gets the name, so a reader finds either the old file or the new one,
    even if the machine stops at any point. If the block raises, the old file stays and the new one
    is deleted. A symbolic link is kept: its target is replaced. Permissions are those of the
    replaced file, else as set by the umask.

    Raises:
        OSError: as ``open(path, "wb")`` does, and if ``path`` is not a regular file.
    """
    target = os.path.realpath(path)
    mode = _mode(target)
    folder, name = os.path.split(target)
    # Cut, as a file name may have at most 255 bytes, and a character takes up to 4.
    part = os.path.join(folder, f".{name[:48]}.{secrets.token_hex(8)}{SUFFIX}")
    try:
        with _opened(part, target) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(part, mode)
        os.replace(part, target)
    except BaseException:  # also Ctrl-C
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)
        raise
    _sync(folder)


def _opened(part: str, target: str) -> IO[bytes]:
    try:
        return open(part, "xb")
    except OSError as error:
        error.filename = target  # the name that the user passed
        raise


def _mode(target: str) -> int | None:
    """The permissions of the existing file; None if there is none. Raises if it is not writable."""
    try:
        found = os.stat(target).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), target)
    if not stat.S_ISREG(found):  # renaming over /dev/null would replace it
        raise OSError(errno.EINVAL, "a device, pipe or socket cannot be replaced", target)
    os.close(os.open(target, os.O_WRONLY))  # renaming would ignore write protection
    return stat.S_IMODE(found) & 0o777


def _sync(folder: str) -> None:
    """Flush the new name to the disk, if the system can: Windows cannot open a folder."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:  # a folder may be writable and not readable
        return
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # as some network disks report
            raise
    finally:
        os.close(opened)
