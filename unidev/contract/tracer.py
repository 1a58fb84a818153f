"""``Tracer``: the part of the contract that reports a framework's own transfers.

Tracers are built from ``Recording`` (which scopes are open in a thread) and ``Patches`` (which
attributes are replaced meanwhile). A tracer adds what moves, and what a user would call it.
"""

from __future__ import annotations

import sys
import threading
from abc import ABC, abstractmethod
from contextlib import contextmanager, nullcontext
from functools import wraps
from itertools import repeat
from operator import itemgetter
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from unidev.contract.optional import BackendPart
from unidev.system.forking import fork_safe_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from types import FrameType

    from unidev.values import PlannedTransfer


class Tracer(BackendPart):
    """Reports what a framework moves between devices, whichever of its calls does so.

    Patches, hooks and slows down nothing unless ``watch`` is open. Other threads are not affected.
    """

    blind_spots: Mapping[str, str] = {}
    """Transfers that it misses, in a user's words, and why. Every trace shows them."""

    is_seconds_real = True
    """Whether the time between ``begin`` and ``end`` is the time of the transfer."""

    gpu_queries: Mapping[str, Any] = {}
    """The framework's functions that see only real GPUs, as ``torch.cuda.is_available``, and the
    module of each. While GPUs are simulated, traces show which of them a program has called and
    found no GPU: with an answer that is false or ``"cpu"``, or a ``RuntimeError``."""

    loops: frozenset[str] = frozenset()
    """The framework's own loops, such as ``fit``, by the last part of their names.

    Nothing within them is a program's to change, so advice about them is to call them less often.
    """

    index_operations: frozenset[str] = frozenset({
        "argwhere", "getitem", "nonzero", "setitem", "unique", "where",
    })  # fmt: skip
    """Operations that read an index, or how many elements their result has, by the last part."""

    recording: Recording
    """The open scopes, to which ``watch`` adds one: set it, or override ``watch``."""

    patches: AbstractContextManager[object] = nullcontext()
    """Entered before each scope and left after it, such as ``Patches``."""

    def watch(
        self, begin: Callable[[PlannedTransfer], Any], end: Callable[[Any], None]
    ) -> AbstractContextManager[None]:
        """A scope of this thread in which each transfer is reported.

        ``begin`` is called before the bytes move if the framework allows it (else right after),
        with the user's code on the stack. If it raises, nothing moves, and the error reaches the
        user unchanged. ``end`` receives what ``begin`` returned, once the bytes have arrived or the
        framework's call has returned or raised.

        A transfer is reported once, as the outermost call that the user made: ``x.tolist()``, not
        each of its steps. Data that stays on its device is not a transfer. unidev's own verbs
        report their transfers themselves: other reports while they run are ignored.

        Scopes nest, and may be closed in any order. A transfer is reported to each, outermost
        first, and its end in reverse order. After the last scope, also after an exception,
        everything that was patched is the original object again.
        """
        return _within(self.patches, self.recording.scope(begin, end))


@contextmanager
def _within(
    patches: AbstractContextManager[object], scope: AbstractContextManager[None]
) -> Iterator[None]:
    with patches, scope:
        yield


R = TypeVar("R")


class Scope(NamedTuple):
    """The two functions that ``Tracer.watch`` was called with."""

    begin: Callable[[PlannedTransfer], Any]
    end: Callable[[Any], None]


class Recording(threading.local):
    """The scopes that are open in this thread, and the one way to report a transfer to them.

    A tracer creates one. ``watch`` opens its ``scope``, and every replacement of a framework's
    function goes through ``call``, usually by way of ``wrap``.
    """

    def __init__(self) -> None:
        self.scopes: list[Scope] = []
        """Outermost first."""
        self.is_muted = False
        """True during a reported call: what it calls is part of it."""

    @property
    def is_on(self) -> bool:
        """Whether a transfer by this thread would be reported now."""
        return bool(self.scopes) and not self.is_muted

    @contextmanager
    def scope(
        self, begin: Callable[[PlannedTransfer], Any], end: Callable[[Any], None]
    ) -> Iterator[None]:
        """A scope of this thread; scopes opened later may stay open after it."""
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

        Reports to every scope, outermost first, and ends in reverse order. If a ``begin`` raises,
        the transfers that have begun are ended, ``function`` is not called, and the error
        propagates unchanged. Nothing else in this thread is reported meanwhile.
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
        self, function: Callable[..., R], transfers_of: Callable[..., Sequence[PlannedTransfer]]
    ) -> Callable[..., R]:
        """A replacement for ``function``, with its name and documentation.

        In a scope, it reports what ``transfers_of`` returns for the same arguments.
        """

        @wraps(function)
        def wrapper(*arguments: Any, **options: Any) -> R:
            if not self.is_on:
                return function(*arguments, **options)
            transfers = self.muted(transfers_of, *arguments, **options)
            return self.call(transfers, function, *arguments, **options)

        return wrapper

    def muted(self, function: Callable[..., R], /, *arguments: Any, **options: Any) -> R:
        """Call ``function`` without reporting its transfers."""
        was_muted, self.is_muted = self.is_muted, True
        try:
            return function(*arguments, **options)
        finally:
            self.is_muted = was_muted

    def refused(self, error: BaseException) -> None:
        """Called with what a ``begin`` raised, for frameworks that would hide the exception."""

    def opened(self) -> None:
        """Called before the first scope of this thread opens."""

    def closed(self) -> None:
        """Called after the last scope of this thread has closed, to undo what ``opened`` did."""

    def _begun(self, scope: Scope, transfer: PlannedTransfer) -> Any:
        try:
            return scope.begin(transfer)
        except BaseException as error:
            self.refused(error)
            raise

    def _end(self, begun: list[tuple[Callable[[Any], None], Any]]) -> None:
        """End all, last one first, even if one of them raises."""
        while begun:
            end, token = begun.pop()
            try:
                end(token)
            except BaseException:
                self._end(begun)
                raise


def outermost_name(name_of: Callable[[FrameType], str | None], *packages: str) -> str | None:
    """The user's name for the running call: of its frames in ``packages``, that of the outermost.

    Frames of unidev and of the plugin that defines ``name_of`` are passed over; any other is the
    user's. ``name_of`` returns None for a function that users do not call by name. This walks the
    stack, so call it only if something moves.
    """
    own = ("unidev", name_of.__module__.partition(".")[0])
    name: str | None = None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        package = str(frame.f_globals.get("__name__")).partition(".")[0]
        if package in packages:
            name = name_of(frame) or name
        elif package not in own:
            break
        frame = frame.f_back
    return name


_MISSING = object()


class Patches(ABC):
    """Attributes that are replaced while a scope is open in any thread, and restored afterwards.

    ``with patches:`` is counted: the first entry installs the replacements, the last exit restores
    the originals. In a thread without a scope, a replacement calls the original.
    """

    def __init__(self) -> None:
        self._lock = fork_safe_lock()
        self._users = 0
        self._listed: Iterable[tuple[Any, str, Any]] = ()
        self._owners: list[_Attributes] = []
        """Those of ``_listed``."""
        self._replaced: list[_Attributes] = []

    @abstractmethod
    def replacements(self) -> Iterable[tuple[Any, str, Any]]:
        """Owner, name and replacement of each attribute; called on the first entry.

        One that has hundreds returns the same list each time, and another when they have changed.
        """

    def late_holders(self) -> Iterable[tuple[Any, str, Any]]:
        """Owner, name and original of each other attribute that may hold a replacement.

        Called on the last exit: a module imported in between may have taken one.
        """
        return ()

    def __enter__(self) -> None:
        with self._lock:
            if not self._users:
                try:
                    self._list()
                    for each in self._owners:
                        each.look()
                        self._replaced.append(each)
                        each.set(each.replacements)
                except BaseException:  # Ctrl-C too: all or nothing
                    self._restore()
                    raise
            self._users += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                try:
                    late = self.late_holders()
                    self._replaced += [_Attributes(owner, {name: x}) for owner, name, x in late]
                    self._restore()
                except BaseException:  # Ctrl-C halfway through
                    self._restore()
                    raise

    def attributes(self) -> list[tuple[Any, str]]:
        """Owner and name of each attribute that is replaced now."""
        return [(each.owner, name) for each in self._replaced for name in each.originals]

    def _list(self) -> None:
        found = self.replacements()
        if found is not self._listed:
            owners: dict[int, _Attributes] = {}
            for owner, name, replacement in found:
                each = owners.setdefault(id(owner), _Attributes(owner, {}))
                each.replacements[name] = replacement
            self._owners, self._listed = list(owners.values()), found

    def _restore(self) -> None:
        while self._replaced:
            self._replaced[-1].set(self._replaced[-1].originals)
            self._replaced.pop()


class _Attributes:
    """The replaced attributes of one owner, which may be thousands."""

    def __init__(self, owner: Any, originals: dict[str, Any]) -> None:
        self.owner, self.originals = owner, originals
        self.replacements: dict[str, Any] = {}
        self._seen: tuple[Any, ...] = ()
        self._is_set_at_once = False
        self._all_in: Callable[[Mapping[str, Any]], tuple[Any, ...]] | None = None

    def look(self) -> None:
        """Keep what is there now."""
        here = vars(self.owner)
        try:
            now = self._found_in(here) if self._all_in is None else self._all_in(here)
        except KeyError:  # one that was there is not
            now = self._found_in(here)
        if now != self._seen:
            self.originals = dict(zip(self.replacements, now, strict=True))
            is_of_module = type(self.owner) is ModuleType and _MISSING not in now
            self._seen, self._is_set_at_once = now, is_of_module
            if is_of_module and len(now) > 1:  # twice as fast; of one name it returns no tuple
                self._all_in = itemgetter(*self.replacements)

    def _found_in(self, here: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(map(here.get, self.replacements, repeat(_MISSING)))

    def set(self, values: Mapping[str, Any]) -> None:
        """Set, or delete, each attribute."""
        if self._is_set_at_once:
            vars(self.owner).update(values)
            return
        for name, value in values.items():
            if value is not _MISSING:
                setattr(self.owner, name, value)
            elif name in vars(self.owner):
                delattr(self.owner, name)


class Makers(Patches):
    """The functions of modules that make tensors of numbers, replaced while entered.

    ``made`` is called with each result, unless an argument gives the device: ``device=``, ``ctx=``,
    ``place=`` or ``like=``. Functions that follow an argument, as ``zeros_like``, are left alone.
    """

    names = (
        "arange", "array", "asarray", "empty", "eye", "full", "linspace", "ones", "rand", "randn",
        "to_tensor", "zeros",
    )  # fmt: skip

    def __init__(self, modules: Iterable[Any], made: Callable[[Any], None]) -> None:
        super().__init__()
        self._modules, self._made = modules, made

    def replacements(self) -> Iterator[tuple[Any, str, Any]]:
        """Each function, wrapped, as far as the module has it."""
        for module in self._modules:
            for name in self.names:
                if hasattr(module, name):
                    yield module, name, self._watched(getattr(module, name))

    def _watched(self, function: Callable[..., R]) -> Callable[..., R]:
        @wraps(function)
        def maker(*arguments: Any, **options: Any) -> R:
            __tracebackhide__ = True
            result = function(*arguments, **options)
            if all(options.get(name) is None for name in ("device", "ctx", "place", "like")):
                self._made(result)
            return result

        return maker
