"""Locks that a forked child can take: ``os.fork`` waits until no other thread holds one.

Else the child has a lock that is held for ever, and what it protects is half done. Python's own
lock of a module that is being imported is such a lock: a fork waits for unidev's imports, too.
"""

from __future__ import annotations

import os
import sys
import threading
import time

_PATIENCE_S, _MOST_S = 10.0, 120.0
"""How long a fork waits for imports that do not compute: one may wait for the thread that forks."""
_LEAST_CPU_S = 0.01
"""What other threads compute in that time, if an import is only slow, as on a busy machine."""
_SLICE_S = 0.001

_has_come_first: list[bool] = []
_locks: list[threading.RLock] = []
_held: list[threading.RLock] = []


def fork_safe_lock(*, is_outermost: bool = False) -> threading.RLock:
    """A new ``RLock``, for as long as the process lives; others are taken inside an outermost."""
    lock = threading.RLock()
    _locks.insert(0 if is_outermost else len(_locks), lock)
    return lock


def _acquire() -> None:
    start, computed = time.monotonic(), 0.0
    end = start + _PATIENCE_S
    before = _lock_of_logging()
    while True:
        if all(map(_take, _locks.copy())):
            now, others = time.monotonic(), time.process_time() - time.thread_time()
            if others > computed + _LEAST_CPU_S:
                computed, end = others, min(now + _PATIENCE_S, start + _MOST_S)
            if not _is_importing() or now > end:
                break
        _release()  # what is imported may need them
        _pause()
    lock = _lock_of_logging()
    is_whole = hasattr(sys.modules.get("logging"), "captureWarnings")  # the last that is made
    if before is None and lock is not None and is_whole:
        lock.acquire()  # it came meanwhile, and releases this after the fork


def _take(lock: threading.RLock) -> bool:
    is_taken = lock.acquire(timeout=_SLICE_S)
    if is_taken:
        _held.append(lock)
    return is_taken


def _pause() -> None:
    """Sleep without the lock of logging: its own import needs it, once a fork has it first."""
    lock = _lock_of_logging()
    try:
        if lock is not None:
            lock.release()
    except RuntimeError:  # this thread has not taken it
        lock = None
    time.sleep(_SLICE_S)
    if lock is not None:
        lock.acquire()


def _lock_of_logging() -> threading.RLock | None:
    # Private: what logging takes before a fork is not told otherwise (3.14).
    return getattr(sys.modules.get("logging"), "_lock", None)


def _is_importing() -> bool:
    """Whether a call of unidev's in another thread is importing a module, whosever it is."""
    frames = sys._current_frames()
    # A frame in a variable of its own is a cycle, which keeps what its callers hold.
    del frames[threading.get_ident()]
    for number in frames:
        frame, imports = frames.get(number), False
        while frame is not None:
            name = str(frame.f_globals.get("__name__"))
            imports |= name.startswith(("importlib.", "_frozen_importlib"))
            if imports and name.startswith("unidev"):
                return True
            frame = frame.f_back
    return False


def _release() -> None:
    while _held:
        _held.pop().release()


def come_first() -> None:
    """Before a framework is imported: a fork waits for that before it takes the lock of logging.

    Which the import needs. What is registered last comes first.
    """
    if not _has_come_first:
        import logging  # noqa: F401  it registers its own

        _register()
        _has_come_first.append(True)


def _register() -> None:
    if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
        os.register_at_fork(before=_acquire, after_in_parent=_release, after_in_child=_release)


_register()
