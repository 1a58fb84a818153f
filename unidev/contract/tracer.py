"""``Tracer``: the part of the contract that sees a framework's own transfers.

``Recording`` and ``Patches`` are what tracers are made of: who listens in which thread, and what is
replaced meanwhile. What moves, and what a user would call it, is left to the tracer.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from contextlib import contextmanager
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
    """Of the tensor that is moved; None of several in one, or where nobody knows it."""


class Tracer(ABC):
    """Sees what a framework moves between devices, by whatever call of the framework's.

    Nothing is patched, hooked or slower but while ``watch`` is open, and nothing for other threads.
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
        """A scope, of this thread, in which each transfer is told.

        ``begin`` is called before the bytes move, where the framework lets one (else right after),
        with the user's code on the stack; it may raise, and then nothing is moved, and what it
        raised reaches the user as it is. What it returns is given to ``end`` once the bytes are
        there, or the framework's call has returned or raised.

        A transfer is told once, by the outermost call that a user makes: ``x.tolist()``, not each
        step of it. What stays on its device is none. What unidev's own verbs move is not to be told
        (they tell it themselves): whoever opens the scope ignores what comes while they run.

        Scopes nest. Afterwards, also after an exception, whatever was patched is the original
        object again.
        """


R = TypeVar("R")


class Scope(NamedTuple):
    """The two functions that ``Tracer.watch`` was called with."""

    begin: Callable[[PlannedTransfer], Any]
    end: Callable[[Any], None]


class Recording(threading.local):
    """The scopes that are open in this thread, and the one way to report a transfer to them.

    A tracer makes one. Its ``watch`` opens a scope of it, and what stands in the place of a
    framework's function goes through ``call``.
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

    def muted(self, function: Callable[..., R], /, *arguments: Any, **options: Any) -> R:
        """Call ``function``, and report nothing meanwhile: it is a part of what was reported."""
        was_muted, self.is_muted = self.is_muted, True
        try:
            return function(*arguments, **options)
        finally:
            self.is_muted = was_muted

    def refused(self, error: BaseException) -> None:
        """Called with what a ``begin`` raised, for a framework that would hide it on its way."""

    def closed(self) -> None:
        """Called when the last scope of this thread has closed, to drop what was kept for it."""

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
    """Attributes that are others while a scope is open in any thread, and the originals after.

    ``with patches:`` counts: the first to enter puts the replacements in place, the last to leave
    takes them out. What a replacement does in a thread without a scope is to call the original.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._originals: list[tuple[Any, str, Any]] = []

    @abstractmethod
    def replacements(self) -> Iterable[tuple[Any, str, Any]]:
        """Each owner, the attribute's name, and what takes its place; asked at each first enter."""

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
