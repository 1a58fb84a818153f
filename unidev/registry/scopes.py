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
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from typing import Any

    from unidev.contract.device import Device


class Scope:
    """One ``with``: a device, or a backend by name, and the framework's own scope within it."""

    __slots__ = ("backend", "device", "native", "native_scope", "owner")

    def __init__(
        self,
        owner: object,
        backend: str,
        device: Device | None = None,
        native_scope: Callable[[Device], AbstractContextManager[Any]] | None = None,
    ) -> None:
        self.owner = owner
        self.backend = backend
        self.device = device
        self.native_scope = native_scope

    def enter(self) -> None:
        """Enter a new scope of the framework, which may raise, then this one."""
        self.native = None
        if self.native_scope is not None and self.device is not None:
            self.native = self.native_scope(self.device)
            self.native.__enter__()
        stack.scopes.append(self)

    def leave(self, *exc_info: Any) -> None:
        """Leave this one, which is innermost, then the framework's."""
        stack.scopes.pop()
        if self.native is not None:
            self.native.__exit__(*exc_info)


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


class inherited:  # noqa: N801  reads as what it is: `with inherited():`
    """This thread's scopes; another thread enters new ones of the same kind by ``with``."""

    def __init__(self) -> None:
        self._scopes = list(stack.scopes)
        self._entered: list[Scope] = []

    def __enter__(self) -> None:
        for each in self._scopes:
            made = Scope(self, each.backend, each.device, each.native_scope)
            made.enter()
            self._entered.append(made)

    def __exit__(self, *exc_info: object) -> None:
        while self._entered:
            self._entered.pop()
            leave_scope(self, *exc_info)


def enter_device(device: Device) -> None:
    """Enter ``with device:``, and the framework's own scope if its default is per thread."""
    from unidev.contract.optional import Unsupported

    found = registry.load_backend(device.backend).native_scope
    native_scope = None if isinstance(found, Unsupported) else found
    Scope(device, device.backend, device, native_scope).enter()


def leave_scope(owner: object, *exc_info: Any) -> None:
    """Leave the innermost scope that ``owner`` entered.

    It need not be the last one: a generator suspended inside a ``with`` may be closed late. Those
    above it are left first and entered again, since a framework restores what it had before.

    Raises:
        ScopeError: ``owner`` has no open scope in this thread.
    """
    scopes = stack.scopes
    position = len(scopes) - 1
    while position >= 0 and scopes[position].owner is not owner:
        position -= 1
    if position < 0:
        raise ScopeError(
            f"exit from `with {shown(owner)}:`, which was not entered in this thread or has "
            "already been exited."
        )
    scope, *above = scopes[position:]
    for each in reversed(above):
        each.leave(None, None, None)
    try:
        scope.leave(*exc_info)
    finally:
        for each in above:
            each.enter()


registry.enter = enter_device
registry.leave = leave_scope
