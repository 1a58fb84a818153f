"""Locks that a forked child can take: ``os.fork`` waits until no other thread holds one.

Else the child has a lock that is held for ever, and what it protects is half done.
"""

from __future__ import annotations

import os
import threading

_locks: list[threading.RLock] = []
_held: list[threading.RLock] = []


def fork_safe_lock(*, is_outermost: bool = False) -> threading.RLock:
    """A new ``RLock``, for as long as the process lives; others are taken inside an outermost."""
    lock = threading.RLock()
    _locks.insert(0 if is_outermost else len(_locks), lock)
    return lock


def _acquire() -> None:
    for lock in _locks.copy():
        lock.acquire()
        _held.append(lock)


def _release() -> None:
    while _held:
        _held.pop().release()


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(before=_acquire, after_in_parent=_release, after_in_child=_release)
