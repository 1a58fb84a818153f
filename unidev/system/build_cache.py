"""Files built once per user and kept: under a lock, completely or not at all."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING

import filelock
import platformdirs

from unidev.errors import SimulationError
from unidev.system.progress import progress
from unidev.system.settings import CACHE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_checked: dict[Path, int] = {}
"""The last file that was checked at each path, open as long as the process: the linker knows it by
this number."""


def build_once(
    name: str, key: str, filename: str, build: Callable[[Path], None], *, about: str | None = None
) -> Path:
    """A file that a simulator needs, built the first time and then kept in the user's cache.

    Args:
        name: the backend it belongs to, such as ``torch``; used in messages and in the folder name.
        key: everything that the file depends on (versions, a hash of the source, the compiler).
        filename: the file's name. It is alone in its folder.
        build: creates the file at the given path, or raises ``SimulationError``.
        about: how long it takes on a usual machine, such as ``20 s``, for whoever waits.

    If several processes call this at once, one builds and the others wait. An interrupted build
    leaves nothing that could be mistaken for the file: it is built under another name, then
    renamed. On POSIX, no other user can read or change what is in the cache.

    Raises:
        SimulationError: the build failed; or the cache cannot be written to, or others can.
    """
    digest = hashlib.sha256(key.encode()).hexdigest()[:16]
    root = cache_folder()
    try:
        root = _private(root)
        folder = root / f"{name}-{digest}"
        if _is_whole(folder / filename):
            return folder / filename
        with _locked(root / f"{folder.name}.lock", name):
            if not _is_whole(folder / filename):
                takes = "" if about is None else f"about {about}, "
                what = f"building the simulated devices of {name} ({takes}once, kept in {folder})"
                with progress(what, beyond_capture=True):
                    _build(folder, filename, build)
                _is_whole(folder / filename)
    except OSError as error:
        raise SimulationError(
            f"the simulated devices of {name} cannot be built in {root} ({error}): set UNIDEV_CACHE"
            " to a writable folder with enough free space."
        ) from error
    return folder / filename


def checked_file(path: Path) -> str:
    """A name for the linker: of the file that ``build_once`` has read, whatever is there by now."""
    name = f"/proc/self/fd/{_checked[path]}"
    return name if os.path.exists(name) else str(path)


def cache_folder() -> Path:
    """Where built files are kept: ``UNIDEV_CACHE``, else the platform's cache folder."""
    named = os.environ.get(CACHE)
    return Path(named or platformdirs.user_cache_dir("unidev")).expanduser().absolute()


def _private(folder: Path) -> Path:
    """``folder`` without links, made if missing, in which only this user can have put anything."""
    folder = Path(os.path.realpath(folder))
    for each in (*reversed(folder.parents), folder):
        each.mkdir(0o700, exist_ok=True)
        if os.name == "posix":
            _check_ours(each, each.lstat(), is_parent=each != folder)
    if folder.stat().st_mode & 0o077:
        folder.chmod(0o700)
    return folder


def _check_ours(folder: Path, found: os.stat_result, *, is_parent: bool) -> None:
    # In a container, the system's own folders may belong to a user other than root.
    trusted = {os.geteuid(), 0, os.stat("/").st_uid} if is_parent else {os.geteuid()}
    is_like_tmp = is_parent and found.st_mode & stat.S_ISVTX  # each user's files stay theirs
    remedy = "set UNIDEV_CACHE to a new folder in your home folder"
    if found.st_uid not in trusted:
        problem = f"{folder} belongs to another user ({found.st_uid})"
    elif found.st_mode & 0o022 and not is_like_tmp:
        problem = f"other users may write to {folder}"
        mode = "go-w" if is_parent else "700"
        remedy += f"; or, if all that is in this one is yours: chmod {mode} {folder}"
    else:
        return
    raise SimulationError(
        f"simulated devices are not loaded from a folder that another user can change: {problem}: "
        f"{remedy}."
    )


@contextlib.contextmanager
def _locked(path: Path, name: str) -> Iterator[None]:
    lock = filelock.FileLock(path, mode=0o600)
    waiting = f"waiting for another process to build the simulated devices of {name}"
    with progress(waiting, beyond_capture=True):
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _build(folder: Path, filename: str, build: Callable[[Path], None]) -> None:
    # Renaming completes the build: a process killed earlier leaves a temporary folder, which is
    # never mistaken for the result and which the next build of the same file deletes.
    checksum = _checksum_file(folder)
    for left in (*folder.parent.glob(f"{folder.name}.part-*"), folder, checksum):
        _remove(left)
    part = Path(tempfile.mkdtemp(prefix=f"{folder.name}.part-", dir=folder.parent))
    try:
        build(part / filename)
        if not (part / filename).exists():
            raise SimulationError(f"the build of {filename} ended without creating the file.")
        (part / filename).chmod(0o600)  # whatever the umask
        with open(checksum, "x", opener=_opener) as file, _own(part / filename) as built:
            file.write(_checksum(built))
        part.rename(folder)
    finally:
        _remove(part)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _is_whole(path: Path) -> bool:
    if path.parent.is_symlink():
        return False
    try:
        with _own(_checksum_file(path.parent)) as checksum, _own(path) as file:
            is_whole = checksum.read().decode() == _checksum(file)
            known = _checked.get(path)
            if known is None or not os.path.samestat(os.fstat(known), os.fstat(file.fileno())):
                _checked[path] = os.dup(file.fileno())
            return is_whole
    except OSError:
        return False


def _checksum(file: IO[bytes]) -> str:
    return hashlib.sha256(file.read()).hexdigest()


@contextlib.contextmanager
def _own(path: Path) -> Iterator[IO[bytes]]:
    """A file that is not a link, and that only this user can have written."""
    with open(path, "rb", opener=_opener) as file:
        found = os.fstat(file.fileno())
        if os.name == "posix" and (found.st_uid != os.geteuid() or found.st_mode & 0o022):
            raise PermissionError(errno.EPERM, "other users may have written it", str(path))
        yield file


def _opener(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)


def _checksum_file(folder: Path) -> Path:
    # Beside the folder, not in it: a framework may read every file in there.
    return folder.with_name(folder.name + ".sha256")
