"""The thread's stack of scopes: what ``with device:`` and ``with use_backend(name):`` push.

``threading.local``, so a scope reaches neither other threads nor, by design, tasks that are
interleaved in one thread (as the frameworks' own scopes).
"""

from __future__ import annotations

import threading

TYPE_CHECKING = False  # not typing's: importing that takes as long as all of unidev
if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Any

    from unidev.device import Device


class Scope:
    """One ``with``: a device, or a backend by name, and the framework's own scope within it."""

    __slots__ = ("backend", "device", "native")

    def __init__(
        self, backend: str, device: Device | None, native: AbstractContextManager[Any] | None
    ) -> None:
        self.backend = backend
        self.device = device
        self.native = native


class _Stack(threading.local):
    def __init__(self) -> None:
        self.scopes: list[Scope] = []


_stack = _Stack()


def innermost_scope() -> Scope | None:
    """The scope that this thread is in, or None."""
    scopes = _stack.scopes
    return scopes[-1] if scopes else None


def enter_scope(scope: Scope) -> None:
    """Push ``scope``, after the framework's own, which may refuse."""
    if scope.native is not None:
        scope.native.__enter__()
    _stack.scopes.append(scope)


def leave_scope(*exc_info: Any) -> None:
    """Pop the innermost scope, and leave the framework's own."""
    scope = _stack.scopes.pop()
    if scope.native is not None:
        scope.native.__exit__(*exc_info)
