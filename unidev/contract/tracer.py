"""``Tracer``: the part of the contract that sees a framework's own transfers.

Tracers are made of ``Recording`` (which scopes are open in a thread) and ``Patches`` (which
attributes are replaced meanwhile). A tracer adds what moves, and what a user would call it.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from unidev.contract.backend import Backend
    from unidev.contract.device import Device


class PlannedTransfer(NamedTuple):
    """Bytes that go from one device to another."""

    operation: str
    """What a user would call it: ``Tensor.item``, ``asnumpy``, ``add of mixed operands``."""
    source: Device
    target: Device
    """Where they go; what is read into Python, or into NumPy, goes to ``cpu:0``."""
    nbytes: int
    shape: tuple[int, ...] | None
    """Of the tensor that is moved; None for several in one, or where it is unknown."""


class Tracer(ABC):
    """Sees what a framework moves between devices, by whatever call of the framework's.

    Nothing is patched, hooked or slower unless ``watch`` is open, and nothing in other threads.
    """

    blind_spots: Mapping[str, str] = {}
    """What it does not see, in a user's words, and why. Shown with every trace: no silent hole."""

    is_seconds_real = True
    """Whether the time between ``begin`` and ``end`` is that of the transfer."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    @abstractmethod
    def watch(
        self, begin: Callable[[PlannedTransfer], Any], end: Callable[[Any], None]
    ) -> AbstractContextManager[None]:
        """A scope of this thread in which each transfer is reported.

        ``begin`` is called before the bytes move, where the framework lets one (else right after),
        with the user's code on the stack. It may raise: then nothing is moved, and the error
        reaches the user as it is. ``end`` is given what ``begin`` returned, once the bytes are
        there, or the framework's call has returned or raised.

        A transfer is reported once, by the outermost call that a user makes: ``x.tolist()``, not
        each step of it. Data that stays on its device is no transfer. unidev's own verbs report
        what they move themselves: whoever opens the scope ignores reports while they run.

        Scopes nest, and may be left in any order. Each of them hears a transfer, the outermost
        first, and its end in the opposite order. Afterwards, also after an exception, whatever was
        patched is the original object again.
        """


R = TypeVar("R")


class Scope(NamedTuple):
    """The two functions that ``Tracer.watch`` was called with."""

    begin: Callable[[PlannedTransfer], Any]
    end: Callable[[Any], None]


class Recording(threading.local):
    """The scopes that are open in this thread, and the one way to report a transfer to them.

    A tracer makes one. Its ``watch`` opens a ``scope`` of it, and every replacement of a
    framework's function goes through ``call``, mostly by ``wrap``.
    """

    def __init__(self) -> None:
        self.scopes: list[Scope] = []
        """The outermost first."""
        self.is_muted = False
        """While a call is reported, and what it calls is a part of it."""

    @property
    def is_on(self) -> bool:
        """Whether a transfer that this thread makes now is to be reported."""
        return bool(self.scopes) and not self.is_muted

    @contextmanager
    def scope(
        self, begin: Callable[[PlannedTransfer], Any], end: Callable[[Any], None]
    ) -> Iterator[None]:
        """A scope of this thread; those that were opened later may stay open after it."""
        scope = Scope(begin, end)
        if not self.scopes:
            self.opened()
        self.scopes.append(scope)
        try:
            yield
        finally:
            del self.scopes[max(i for i, each in enumerate(self.scopes) if each is scope)]
            if not self.scopes:
                self.closed()

    def call(
        self,
        transfers: Sequence[PlannedTransfer],
        function: Callable[..., R],
        /,
        *arguments: Any,
        **options: Any,
    ) -> R:
        """Call ``function``, which makes these transfers, and report them before and after.

        Every scope hears of them, the outermost first, and of their end in the opposite order. If a
        ``begin`` raises, those that have begun end, ``function`` is not called, and the error goes
        to the caller as it is. Nothing that happens meanwhile in this thread is reported.
        """
        if not transfers or not self.is_on:
            return function(*arguments, **options)
        begun: list[tuple[Callable[[Any], None], Any]] = []
        self.is_muted = True
        try:
            for scope in tuple(self.scopes):
                for each in transfers:
                    begun.append((scope.end, self._begun(scope, each)))  # noqa: PERF401  may raise
            return function(*arguments, **options)
        finally:
            try:
                self._end(begun)
            finally:
                self.is_muted = False

    def wrap(
        self,
        function: Callable[..., R],
        transfers_of: Callable[..., Sequence[PlannedTransfer]],
    ) -> Callable[..., R]:
        """A function to put in the place of ``function``, with its name and its documentation.

        In a scope it reports what ``transfers_of``, called with the same arguments, finds that
        ``function`` will move. Elsewhere it only calls ``function``.
        """

        @wraps(function)
        def wrapper(*arguments: Any, **options: Any) -> R:
            if not self.is_on:
                return function(*arguments, **options)
            transfers = self.muted(transfers_of, *arguments, **options)
            return self.call(transfers, function, *arguments, **options)

        return wrapper

    def muted(self, function: Callable[..., R], /, *arguments: Any, **options: Any) -> R:
        """Call ``function``, and report nothing that it moves."""
        was_muted, self.is_muted = self.is_muted, True
        try:
            return function(*arguments, **options)
        finally:
            self.is_muted = was_muted

    def refused(self, error: BaseException) -> None:
        """Called with what a ``begin`` raised, for a framework that would hide it on its way."""

    def opened(self) -> None:
        """Called before the first scope of this thread opens."""

    def closed(self) -> None:
        """Called when the last scope of this thread has closed, to undo what ``opened`` did."""

    def _begun(self, scope: Scope, transfer: PlannedTransfer) -> Any:
        try:
            return scope.begin(transfer)
        except BaseException as error:
            self.refused(error)
            raise

    def _end(self, begun: list[tuple[Callable[[Any], None], Any]]) -> None:
        """End the last one first, all of them whatever one raises."""
        while begun:
            end, token = begun.pop()
            try:
                end(token)
            except BaseException:
                self._end(begun)
                raise


_MISSING = object()


class Patches(ABC):
    """Attributes that are replaced while a scope is open in any thread, and restored afterwards.

    ``with patches:`` counts: the first to enter puts the replacements in place, the last to leave
    restores the originals. In a thread without a scope a replacement calls the original.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._originals: list[tuple[Any, str, Any]] = []

    @abstractmethod
    def replacements(self) -> Iterable[tuple[Any, str, Any]]:
        """Owner, name and replacement of each attribute; called when the first one enters."""

    def late_holders(self) -> Iterable[tuple[Any, str, Any]]:
        """Owner, name and original of each further attribute that may hold a replacement.

        Called when the last one leaves: a module that was imported meanwhile may have taken one.
        """
        return ()

    def __enter__(self) -> None:
        with self._lock:
            if not self._users:
                try:
                    for owner, name, replacement in list(self.replacements()):
                        self._originals.append((owner, name, vars(owner).get(name, _MISSING)))
                        setattr(owner, name, replacement)
                except BaseException:  # Ctrl-C, too: all or none of them
                    self._restore()
                    raise
            self._users += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                try:
                    self._originals += self.late_holders()
                    self._restore()
                except BaseException:  # Ctrl-C in the middle of it
                    self._restore()
                    raise

    def attributes(self) -> list[tuple[Any, str]]:
        """Owner and name of each that is replaced now."""
        return [(owner, name) for owner, name, _ in self._originals]

    def _restore(self) -> None:
        while self._originals:
            owner, name, original = self._originals[-1]
            if original is not _MISSING:
                setattr(owner, name, original)
            elif name in vars(owner):
                delattr(owner, name)
            self._originals.pop()
