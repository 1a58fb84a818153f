"""Replaces a file completely, or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SUFFIX = ".unidev-part"
"""Ends the incomplete file's name, ``.NAME.RANDOM.unidev-part``, beside the one to be replaced."""

_OF_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a write, which do not name the file."""


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A new file to write to, which takes the place of ``path`` when the block ends.

    It is on the disk before it gets the name, so a reader finds either the old file or the new one,
    even if the machine stops at any point. If the block raises, the old file stays and the new one
    is deleted. A symbolic link is kept: its target is replaced. Permissions are those of the
    replaced file from the first byte on, else as set by the umask.

    Raises:
        OSError: as ``open(path, "wb")`` does, and if ``path`` is not a regular file.
    """
    target = os.path.realpath(path)
    replaced = _replaced(path)
    folder, name = os.path.split(target)
    if not os.path.isdir(folder):
        reason = f"the folder {folder} does not exist"
        raise FileNotFoundError(errno.ENOENT, reason, target)
    # Cut, as a file name may have at most 255 bytes, and a character takes up to 4.
    part = os.path.join(folder, f".{name[:48]}.{secrets.token_hex(8)}{SUFFIX}")

    def private(path: str, flags: int) -> int:
        return os.open(path, flags, 0o666 if replaced is None else 0o600)

    try:
        with _naming(target, part):
            with open(part, "xb", opener=private) as file:
                if replaced is not None:
                    _permit(file.fileno() if os.chmod in os.supports_fd else part, replaced)
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, target)
    except BaseException:  # also Ctrl-C
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)
        raise
    sync(folder)


def write_whole(path: str | os.PathLike[str], content: str | bytes | Iterable[str]) -> None:
    """Write ``content`` (text in UTF-8) completely or not at all; a device or pipe is written to.

    An iterable's strings are written one after another, as they come.

    Raises:
        OSError: as ``open(path, "wb")`` does.
    """
    pieces = (content,) if isinstance(content, (str, bytes)) else content
    with (
        _naming(os.fspath(path)),
        open(path, "wb") if _is_special(path) else replacing(path) as file,
    ):
        file.writelines(map(_encoded, pieces))


def check_writable(path: str | os.PathLike[str]) -> None:
    """Try, before long work, what ``write_whole`` will do with its result; the file stays as it is.

    Raises:
        OSError: as ``open(path, "wb")`` does.
    """
    if not _is_special(path):
        with contextlib.suppress(_TriedError), replacing(path):
            raise _TriedError


class _TriedError(Exception):
    """Ends ``replacing`` before it replaces."""


def _is_special(path: str | os.PathLike[str]) -> bool:
    return os.path.exists(path) and not os.path.isfile(path)  # such as /dev/stdout


def _encoded(text: str | bytes) -> bytes:
    # A file name that is not text has surrogates, which UTF-8 lacks; JSON escapes them like this.
    return text.encode(errors="backslashreplace") if isinstance(text, str) else text


@contextlib.contextmanager
def _naming(path: str, part: str | None = None) -> Iterator[None]:
    """In the block, errors that name ``part``, or no file because they are of a write, name it."""
    try:
        yield
    except OSError as error:
        if error.errno in _OF_WRITING or (error.errno and error.filename == part):
            raise OSError(error.errno, error.strerror, path) from error
        raise


def _replaced(path: str | os.PathLike[str]) -> os.stat_result | None:
    """The existing file's facts; None if there is none. Raises if it is not writable.

    Asked by ``path``, not by what it resolves to: in folders such as /tmp, systems do not follow
    links that other users have put there.
    """
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(found.st_mode):  # renaming over /dev/null would replace it
        raise OSError(errno.EINVAL, "a device, pipe or socket cannot be replaced", path)
    os.close(os.open(path, os.O_WRONLY))  # renaming would ignore write protection
    return found


def _permit(part: int | str, replaced: os.stat_result) -> None:
    mode = stat.S_IMODE(replaced.st_mode) & 0o777
    if hasattr(os, "chown") and os.stat(part).st_gid != replaced.st_gid:
        try:
            os.chown(part, -1, replaced.st_gid)
        except PermissionError:  # what its group could do, another group must not
            mode &= ~0o070
    os.chmod(part, mode)


def sync(folder: str | os.PathLike[str]) -> None:
    """Flush the names in a folder to the disk, if the system can: Windows cannot open a folder."""
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
