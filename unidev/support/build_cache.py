"""Files built once per user and kept: under a lock, completely or not at all."""

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
        name: the backend it belongs to, such as ``torch``; used in messages and in the folder name.
        key: everything that the file depends on (versions, a hash of the source, the compiler).
        filename: the file's name. It is alone in its folder.
        build: creates the file at the given path, or raises ``SimulationError``.

    If several processes call this at once, one builds and the others wait. An interrupted build
    leaves nothing that could be mistaken for the file: it is built under another name, then
    renamed.
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
            " to a writable folder with enough free space."
        ) from error
    return folder / filename


def cache_folder() -> Path:
    """Where built files are kept: ``UNIDEV_CACHE``, else the platform's cache folder."""
    named = os.environ.get("UNIDEV_CACHE")
    return Path(named or platformdirs.user_cache_dir("unidev")).expanduser().absolute()


@contextlib.contextmanager
def _locked(path: Path, name: str) -> Iterator[None]:
    lock = filelock.FileLock(path)
    with progress(f"waiting for another process to build the simulated devices of {name}"):
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _build(folder: Path, filename: str, build: Callable[[Path], None]) -> None:
    # Renaming completes the build: a process killed earlier leaves a temporary folder, which is
    # never mistaken for the result and which the next build of the same file deletes.
    for left in folder.parent.glob(f"{folder.name}.part-*"):
        shutil.rmtree(left, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    part = Path(tempfile.mkdtemp(prefix=f"{folder.name}.part-", dir=folder.parent))
    try:
        build(part / filename)
        if not (part / filename).exists():
            raise SimulationError(f"the build of {filename} ended without creating the file.")
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
    # Beside the folder, not in it: a framework may read every file in there.
    return folder.with_name(folder.name + ".sha256")
