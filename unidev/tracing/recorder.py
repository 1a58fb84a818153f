"""``Watch``: what one thread watches, for all traces and guards that are open in it."""

from __future__ import annotations

import sys
import time
from functools import partial
from threading import current_thread
from typing import TYPE_CHECKING, Any, NamedTuple

from unidev.contract.backend import Unsupported
from unidev.errors import ScopeError, UnidevError
from unidev.registry.discovery import backend_specs
from unidev.registry.loading import load_backend
from unidev.registry.observer import thread
from unidev.tracing import import_hook as following
from unidev.tracing.call_site import UserLines
from unidev.tracing.trace import Trace, Transfer
from unidev.tracing.transfer_guard import check_guard

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import TypeVar

    from unidev.contract.backend import Backend
    from unidev.contract.tracer import Movement
    from unidev.tracing.call_site import Line
    from unidev.tracing.transfer_guard import transfer_guard

    T = TypeVar("T")


class _Begun(NamedTuple):
    movement: Movement
    line: Line
    is_asked: bool
    is_seconds_real: bool
    start: float


class Watch:
    """The traces and guards of one thread, and the frameworks' tracers that tell them.

    One for all that are open: a tracer's scope is opened once, by the first, and left by the last.
    """

    def __init__(self) -> None:
        self.traces: list[Trace] = []
        self.guards: list[transfer_guard] = []
        """The innermost last: that one counts."""
        self.not_seen: dict[str, str] = {}
        """Backends that tell nothing, and why."""
        self.blind_spots: dict[str, Mapping[str, str]] = {}
        """What the tracers in force do not see, by backend."""
        self._scopes: list[AbstractContextManager[None]] = []
        self._verb: str | None = None
        self._lines = UserLines()

    # -- which backends --------------------------------------------------------------------------

    def catch_up(self) -> None:
        """See every backend that is loaded, and those whose framework is imported."""
        for name, spec in backend_specs().items():
            if sys.modules.get(spec.framework) is not None:
                self.see(name)

    def see(self, name: str) -> None:
        """Load backend ``name`` and open its tracer; or keep what is in the way."""
        if name in self.blind_spots or name in self.not_seen:
            return
        try:
            self.add(load_backend(name))
        except UnidevError as error:
            self.not_seen[name] = str(error)

    def add(self, backend: Backend) -> None:
        """Open the tracer of ``backend``, from now on."""
        if backend.name in self.blind_spots:
            return
        self._lines.pass_over(backend)
        tracer = backend.tracer
        if isinstance(tracer, Unsupported):
            self.not_seen[backend.name] = tracer.reason
            return
        try:
            scope = tracer.watch(partial(self._begin_foreign, tracer.is_seconds_real), self._end)
            scope.__enter__()
        except UnidevError as error:
            self.not_seen[backend.name] = str(error)
            return
        self._scopes.append(scope)
        self.blind_spots[backend.name] = dict(tracer.blind_spots)
        self.not_seen.pop(backend.name, None)

    def close(self) -> None:
        """Leave every tracer's scope, the last one first, whatever one of them raises."""
        while self._scopes:
            scope = self._scopes.pop()
            try:
                scope.__exit__(None, None, None)
            except BaseException:
                self.close()
                raise

    def missed(self) -> dict[str, str]:
        """Backends that have told nothing at all, and why, as it stands now."""
        late = {
            name: f"{spec.framework} was imported by another thread, after this one began to watch"
            for name, spec in backend_specs().items()
            if sys.modules.get(spec.framework) is not None
            and name not in self.blind_spots
            and name not in self.not_seen
        }
        return {**self.not_seen, **late}

    # -- what moves --------------------------------------------------------------------------------

    def own_call(
        self,
        operation: str,
        movements: Sequence[Movement],
        is_asked: bool,
        function: Callable[..., T],
        *arguments: Any,
    ) -> T:
        """What ``function(*arguments)`` gives, a call of unidev's own that moves ``movements``.

        What tracers tell meanwhile is not recorded again, nor what other verbs of unidev move that
        this one calls.
        """
        outer = self._verb
        is_told = outer is None or outer == operation
        begun = [self._begin(moved, is_asked, True) for moved in movements] if is_told else []
        self._verb = operation if outer is None else outer
        start = time.perf_counter()
        try:
            result = function(*arguments)
        finally:
            self._verb = outer
        seconds = time.perf_counter() - start
        total = sum(each.movement.nbytes for each in begun if each is not None)
        for each in begun:
            if each is not None:
                share = each.movement.nbytes / total if total else 1 / len(begun)
                self._record(each._replace(start=start), seconds * share)
        return result

    def _begin_foreign(self, is_seconds_real: bool, movement: Movement) -> _Begun | None:
        return None if self._verb is not None else self._begin(movement, False, is_seconds_real)

    def _begin(self, movement: Movement, is_asked: bool, is_seconds_real: bool) -> _Begun | None:
        mode = self.guards[-1].mode if self.guards and not is_asked else "allow"
        is_guarded = mode != "allow"
        if not self.traces and not is_guarded:
            return None
        line = self._lines.here()
        if is_guarded:
            check_guard(mode, movement, line)
        is_real = is_seconds_real and not (
            movement.source.is_simulated or movement.target.is_simulated
        )
        return _Begun(movement, line, is_asked, is_real, time.perf_counter())

    def _end(self, begun: _Begun | None) -> None:
        if begun is not None:
            self._record(begun, time.perf_counter() - begun.start)

    def _record(self, begun: _Begun, seconds: float) -> None:
        movement = begun.movement
        transfer = Transfer(
            operation=movement.operation,
            source=movement.source,
            target=movement.target,
            nbytes=movement.nbytes,
            shape=movement.shape,
            seconds=seconds,
            thread=current_thread().name,
            line=begun.line,
            is_asked=begun.is_asked,
            is_seconds_real=begun.is_seconds_real,
            start=begun.start,
        )
        for trace in self.traces:
            trace.transfers.append(transfer)


def join() -> Watch:
    """The watch of this thread, from now on open for one more trace or guard."""
    watch = thread.watch
    if watch is not None:
        watch.catch_up()
        return watch
    watch = Watch()
    following.start()
    thread.watch = watch
    try:
        watch.catch_up()
    except BaseException:
        _close(watch)
        raise
    return watch


def leave(entered: Trace | transfer_guard | None, what: str) -> None:
    """Take out the innermost ``entered`` of this thread; it need not be the last.

    Raises:
        ScopeError: it was not entered in this thread, or was left before.
    """
    watch = thread.watch
    if watch is None or not (_take_out(watch.traces, entered) or _take_out(watch.guards, entered)):
        raise ScopeError(
            f"`with {what}:` is left, but was not entered in this thread, or was left before."
        )
    if isinstance(entered, Trace):
        entered.finish()
    if not watch.traces and not watch.guards:
        _close(watch)


def _take_out(found: list[Any], entered: object) -> bool:
    for position in reversed(range(len(found))):
        if found[position] is entered:
            del found[position]
            return True
    return False


def _close(watch: Watch) -> None:
    thread.watch = None
    following.stop()
    watch.close()
