"""Replacing a file whole, or not at all."""

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
"""Of the file that is not whole yet: ``.NAME.RANDOM.unidev-part``, beside what it will replace."""


@contextlib.contextmanager
def replacing(path: str) -> Iterator[IO[bytes]]:
    """A new file to write to, which takes the place of ``path`` when the block ends.

    It is on the disk before it gets the name, so whoever looks, and whenever the machine stops,
    finds the old file or the new one. If the block raises, the old one stays, and nothing else.
    A symbolic link stays one: the file that it points at is replaced. Permissions are those of the
    file replaced, else as the umask has it.

    Raises:
        OSError: as of ``open(path, "wb")``; also where ``path`` is no regular file.
    """
    target = os.path.realpath(path)
    mode = _mode(target)
    folder, name = os.path.split(target)
    # Cut, as the longest name that a folder takes has 255 bytes, and a character up to 4.
    part = os.path.join(folder, f".{name[:48]}.{secrets.token_hex(8)}{SUFFIX}")
    try:
        with _opened(part, target) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(part, mode)
        os.replace(part, target)
    except BaseException:  # Ctrl-C, too
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)
        raise
    _sync(folder)


def _opened(part: str, target: str) -> IO[bytes]:
    try:
        return open(part, "xb")
    except OSError as error:
        error.filename = target  # which is what the user knows of
        raise


def _mode(target: str) -> int | None:
    """The permissions of the file that is there, if there is one that may be written to."""
    try:
        found = os.stat(target).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), target)
    if not stat.S_ISREG(found):  # renaming over /dev/null would replace it
        raise OSError(errno.EINVAL, "a device, pipe or socket cannot be replaced", target)
    os.close(os.open(target, os.O_WRONLY))  # renaming would not ask whether it is write-protected
    return stat.S_IMODE(found) & 0o777


def _sync(folder: str) -> None:
    """Put the new name on the disk, where the system can: Windows cannot open a folder."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:  # a folder may be writable and not readable
        return
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # what some network disks say
            raise
    finally:
        os.close(opened)
