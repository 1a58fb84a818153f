"""Files built once for a user and kept: under a lock, whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import filelock
import platformdirs

from unidev.errors import SimulationError
from unidev.support.progress import progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def build_once(name: str, key: str, filename: str, build: Callable[[Path], None]) -> Path:
    """A file that a simulator needs, built the first time and then kept in the user's cache.

    Args:
        name: whose it is, such as ``torch``; in messages, and the folder's name.
        key: everything that the file depends on (versions, a hash of the source, the compiler).
        filename: the file's name. It is alone in its folder.
        build: makes the file at the path that it gets, or raises ``SimulationError``.

    Processes that come at the same time wait for one of them. A build that was cut short leaves
    nothing that could be taken for the file: it is built beside it, then renamed.
    """
    digest = hashlib.sha256(key.encode()).hexdigest()[:16]
    root = cache_folder()
    folder = root / f"{name}-{digest}"
    if _is_whole(folder / filename):
        return folder / filename
    try:
        root.mkdir(parents=True, exist_ok=True)
        with _locked(root / f"{folder.name}.lock", name):
            if not _is_whole(folder / filename):
                what = f"building the simulated devices of {name} (once, kept in {folder})"
                with progress(what):
                    _build(folder, filename, build)
    except OSError as error:
        raise SimulationError(
            f"the simulated devices of {name} cannot be built in {root} ({error}): set UNIDEV_CACHE"
            " to a folder that can be written to and has room."
        ) from error
    return folder / filename


def cache_folder() -> Path:
    """Where built files are kept: ``UNIDEV_CACHE``, else the platform's place for caches."""
    named = os.environ.get("UNIDEV_CACHE")
    return Path(named or platformdirs.user_cache_dir("unidev")).expanduser().absolute()


@contextlib.contextmanager
def _locked(path: Path, name: str) -> Iterator[None]:
    lock = filelock.FileLock(path)
    with progress(f"waiting for another process that builds the simulated devices of {name}"):
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _build(folder: Path, filename: str, build: Callable[[Path], None]) -> None:
    # Renaming is what makes it whole: a process killed before it leaves a temporary folder, which
    # nobody takes for the result, and which the next build of the same thing clears away.
    for left in folder.parent.glob(f"{folder.name}.part-*"):
        shutil.rmtree(left, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    part = Path(tempfile.mkdtemp(prefix=f"{folder.name}.part-", dir=folder.parent))
    try:
        build(part / filename)
        if not (part / filename).exists():
            raise SimulationError(f"the build of {filename} ended without making it.")
        part.chmod(0o755)
        _checksum_file(folder).write_text(_checksum(part / filename))
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _is_whole(path: Path) -> bool:
    try:
        return _checksum_file(path.parent).read_text() == _checksum(path)
    except OSError:
        return False


def _checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _checksum_file(folder: Path) -> Path:
    # Beside the folder, not in it: a framework may take every file in there for its own.
    return folder.with_name(folder.name + ".sha256")
