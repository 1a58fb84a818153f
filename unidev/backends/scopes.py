"""Scopes: what ``with device:`` and ``with use_backend(name):`` enter.

Each thread has its own, and within a thread each asynchronous task: a task begins with the scopes
that are open where it is created, and those that it enters are its own. They are kept in a
``ContextVar``, with the thread, since ``asyncio.to_thread`` hands a context to another one.

A framework's own default device is usually one per thread, for all tasks. A scope that would change
it within another task's block is refused (see ``Backend.native_scope``).
"""

from __future__ import annotations

import sys
import threading
from contextvars import ContextVar
from threading import get_ident

from unidev.device import registry
from unidev.errors import ScopeError
from unidev.system.wording import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from types import CodeType
    from typing import Any

    from unidev.device import Device

NO_SCOPES: tuple[int, tuple[Scope, ...]] = (0, ())
context: ContextVar[tuple[int, tuple[Scope, ...]]] = ContextVar("unidev.scopes", default=NO_SCOPES)
"""The thread, and the scopes that were entered in this context, innermost last."""


class _Thread(threading.local):
    def __init__(self) -> None:
        self.entered: list[Scope] = []


_thread = _Thread()
"""``_thread.entered``: the open scopes of all tasks of this thread, in the order of entering."""


class Scope:
    """One ``with``: a device, or a backend by name, and the framework's own scope within it."""

    __slots__ = (
        "_code",
        "_line",
        "backend",
        "device",
        "is_open",
        "native",
        "native_scope",
        "owner",
    )

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
        self.native: Any = None
        self.is_open = False

    def enter(self, depth: int = 3) -> None:
        """Enter a new scope of the framework, which may raise, then this one.

        Args:
            depth: how many calls up the user's line is.

        Raises:
            ScopeError: the innermost scope of the framework's is another task's, and the
                framework has one default for all tasks.
        """
        frame = sys._getframe(depth)
        self._code: CodeType = frame.f_code
        self._line = frame.f_lineno
        entered, own = _thread.entered, stack.scopes
        if self.native_scope is not None:
            if entered:
                self._refuse_another_tasks(entered, own)
            self.enter_native()
        entered.append(self)
        self.is_open = True
        context.set((get_ident(), (*own, self)))

    def leave(self, *exc_info: Any) -> None:
        """Leave this one, then the framework's."""
        stack.scopes = tuple([each for each in stack.scopes if each is not self])
        _thread.entered.remove(self)
        self.is_open = False
        self.leave_native(*exc_info)

    def enter_native(self) -> None:
        """Enter a new scope of the framework, if it has any."""
        self.native = None
        if self.native_scope is not None and self.device is not None:
            native = self.native_scope(self.device)
            native.__enter__()
            self.native = native

    def leave_native(self, *exc_info: Any) -> None:
        """Leave the framework's scope."""
        native, self.native = self.native, None
        if native is not None:
            native.__exit__(*exc_info)

    @property
    def is_of_thread(self) -> bool:
        """Whether it has changed what all tasks of the thread see."""
        return self.native is not None and not getattr(self.native, "follows_tasks", False)

    def _refuse_another_tasks(self, entered: list[Scope], own: tuple[Scope, ...]) -> None:
        for other in reversed(entered):
            if other.backend != self.backend or not other.is_of_thread:
                continue
            if other in own:
                return  # the innermost: what was entered before it does not count here
            raise ScopeError(
                f"`with {shown(self.owner)}:`, at {self}, would be entered inside another "
                f"task's `with {shown(other.owner)}:`, at {other}, which has not ended: "
                f"{self.backend} has one default device for all tasks of a thread. Enter it in "
                "one task at a time, without an `await` in its block, or pass device=."
            )

    def __str__(self) -> str:
        return f"{self._code.co_filename}:{self._line}"


class _Stack:
    """``stack.scopes`` are this task's open scopes, innermost last. Only this module sets it."""

    @property
    def scopes(self) -> tuple[Scope, ...]:
        thread, scopes = context.get()
        if not scopes or thread != get_ident():
            return ()
        for each in scopes:
            if not each.is_open:  # it has ended in the task that this one was created in
                return tuple(scope for scope in scopes if scope.is_open)
        return scopes

    @scopes.setter
    def scopes(self, scopes: tuple[Scope, ...]) -> None:
        context.set((get_ident(), scopes) if scopes else NO_SCOPES)


stack = _Stack()


def innermost_device(backend: str) -> Device | None:
    """The device of the innermost ``with device:`` of ``backend`` that this task is in."""
    thread, scopes = context.get()
    if not scopes or thread != get_ident():
        return None
    for scope in reversed(scopes):
        if scope.device is not None and scope.backend == backend and scope.is_open:
            return scope.device
    return None


class inherited:  # noqa: N801  reads as what it is: `with inherited():`
    """This task's scopes; another thread enters new ones of the same kind by ``with``."""

    def __init__(self) -> None:
        self._scopes = list(stack.scopes)
        self._entered: list[Scope] = []

    def __enter__(self) -> None:
        for each in self._scopes:
            made = Scope(self, each.backend, each.device, each.native_scope)
            made.enter(depth=1)
            self._entered.append(made)

    def __exit__(self, *exc_info: object) -> None:
        while self._entered:
            self._entered.pop()
            leave_scope(self, *exc_info)


def enter_device(device: Device) -> None:
    """Enter ``with device:``, and the framework's own scope if its default is per thread."""
    found = registry.load_backend(device.backend).native_scope
    # Loaded with the backend; an `import` of it here would take a fifth of the time of a scope.
    optional: Any = sys.modules["unidev.contract.optional"]
    native_scope = None if isinstance(found, optional.Unsupported) else found
    Scope(device, device.backend, device, native_scope).enter()


def leave_scope(owner: object, *exc_info: Any) -> None:
    """Leave the innermost scope that ``owner`` entered.

    It need not be the last one: a generator suspended inside a ``with`` may be closed late. The
    framework's scopes of those above it are left first and entered again, since a framework
    restores what it had before.

    Raises:
        ScopeError: ``owner`` has no open scope in this task; or another task has entered one inside
            this one, and so has changed the framework's default device of both. This one has ended
            nevertheless, and that one has not.
    """
    own, entered = stack.scopes, _thread.entered
    if own and own[-1].owner is owner and own[-1] is entered[-1]:
        own[-1].leave(*exc_info)
        return
    scope = next((each for each in reversed(own) if each.owner is owner), None)
    if scope is None:
        other = next((each for each in entered if each.owner is owner), None)
        raise ScopeError(
            f"exit from `with {shown(owner)}:`, which was not entered in this thread or has "
            "already been exited. (A generator that several threads resume must not yield in it.)"
            if other is None
            else f"exit from `with {shown(owner)}:`, which another task entered, at {other}."
        )
    above = [each for each in entered[entered.index(scope) + 1 :] if each.is_of_thread]
    for each in reversed(above):
        each.leave_native(None, None, None)
    try:
        scope.leave(*exc_info)
    finally:
        for each in above:
            each.enter_native()
    inner = next((each for each in above if each not in own), None)
    if inner is not None and exc_info[:1] in ((), (None,)):
        raise ScopeError(
            f"`with {shown(owner)}:`, at {scope}, ends inside another task's "
            f"`with {shown(inner.owner)}:`, at {inner}, which was the default device of both: "
            f"{inner.backend} has one for all tasks of a thread. Use such blocks in one task at a "
            "time, without an `await` in them, or pass device=."
        )


registry.enter = enter_device
registry.leave = leave_scope
