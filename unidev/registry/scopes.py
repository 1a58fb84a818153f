"""The thread's stack of scopes: what ``with device:`` and ``with use_backend(name):`` push.

It is ``threading.local``, so a scope does not affect other threads. Like the frameworks' own
scopes, it does affect asynchronous tasks that interleave in one thread.
"""

from __future__ import annotations

import threading

from unidev.contract.device import registry
from unidev.errors import ScopeError
from unidev.support.wording import shown

TYPE_CHECKING = False  # not typing's: importing that takes as long as all of unidev
if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Any

    from unidev.contract.device import Device


class Scope:
    """One ``with``: a device, or a backend by name, and the framework's own scope within it."""

    __slots__ = ("backend", "device", "native", "owner")

    def __init__(
        self,
        owner: object,
        backend: str,
        device: Device | None = None,
        native: AbstractContextManager[Any] | None = None,
    ) -> None:
        self.owner = owner
        self.backend = backend
        self.device = device
        self.native = native


class _Stack(threading.local):
    def __init__(self) -> None:
        self.scopes: list[Scope] = []


stack = _Stack()
"""``stack.scopes`` are this thread's own, innermost last. Only this module changes them."""


def innermost_device(backend: str) -> Device | None:
    """The device of the innermost ``with device:`` of ``backend`` that this thread is in."""
    for scope in reversed(stack.scopes):
        if scope.device is not None and scope.backend == backend:
            return scope.device
    return None


def enter_scope(scope: Scope) -> None:
    """Push ``scope``, after entering the framework's own scope, which may raise."""
    if scope.native is not None:
        scope.native.__enter__()
    stack.scopes.append(scope)


def enter_device(device: Device) -> None:
    """Enter ``with device:``, and the framework's own scope if its default is per thread."""
    from unidev.contract.optional import Unsupported

    native_scope = registry.load_backend(device.backend).native_scope
    native = None if isinstance(native_scope, Unsupported) else native_scope(device)
    enter_scope(Scope(device, device.backend, device, native))


def leave_scope(owner: object, *exc_info: Any) -> None:
    """Remove the innermost scope that ``owner`` entered, and exit the framework's own.

    It need not be the last one: a generator suspended inside a ``with`` may be closed late.

    Raises:
        ScopeError: ``owner`` has no open scope in this thread.
    """
    scopes = stack.scopes
    for position in reversed(range(len(scopes))):
        scope = scopes[position]
        if scope.owner is owner:
            del scopes[position]
            if scope.native is not None:
                scope.native.__exit__(*exc_info)
            return
    raise ScopeError(
        f"exit from `with {shown(owner)}:`, which was not entered in this thread or has already "
        "been exited."
    )


registry.enter = enter_device
registry.leave = leave_scope
