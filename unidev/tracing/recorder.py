"""``Recorder``: records one thread's transfers for all traces and guards open in it."""

from __future__ import annotations

import logging
import os
import sys
import time
from functools import cache, partial, wraps
from threading import current_thread
from typing import TYPE_CHECKING, Any

from unidev.backends.discovery import backend_specs
from unidev.backends.import_hook import FrameworkFinder
from unidev.backends.loading import load_backend
from unidev.backends.observer import thread
from unidev.backends.races import races
from unidev.contract.backend import Unsupported
from unidev.contract.tracer import Patches
from unidev.errors import ScopeError, TransferForbiddenError, UnidevError
from unidev.system.forking import fork_safe_lock
from unidev.system.late_changes import note
from unidev.system.visible import VARIABLES
from unidev.system.wording import bytes_text
from unidev.tracing.advice import remedy, spoken
from unidev.tracing.call_site import CallSites
from unidev.tracing.record import Record
from unidev.tracing.transfer import Exchange, Transfer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from types import FrameType
    from typing import Protocol, TypeVar

    from unidev.contract.backend import Backend
    from unidev.contract.backend_spec import Race
    from unidev.values import Line, PlannedTransfer

    T = TypeVar("T")

    class Guard(Protocol):
        """``transfer_guard``."""

        mode: str


_VARIABLES = {name for names in VARIABLES.values() for name in names}


class Recorder:
    """The open traces and guards of one thread, and the framework tracers that report to them.

    All of them share one recorder: the first opens each tracer's scope, and the last leaves it.
    """

    def __init__(self) -> None:
        self.traces: list[Record] = []
        self.guards: list[Guard] = []
        """The innermost is last; only that one applies."""
        self.not_seen: dict[str, str] = {}
        """Backends that cannot be traced, and why."""
        self.blind_spots: dict[str, Mapping[str, str]] = {}
        """Transfers that the open tracers do not see, and why, by backend."""
        self.gpu_queries: dict[str, str] = {}
        """The framework's functions that have answered that there is no GPU, and why."""
        self.late_changes: dict[str, str] = {}
        """Variables that choose GPUs, changed after the driver had read them; values and line."""
        self._scopes: list[AbstractContextManager[None]] = []
        self._verb: str | None = None
        self.lines = CallSites()

    # -- which backends --------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Trace every backend whose framework is imported; if that fails, keep the reason."""
        for name, _ in self._late():
            try:
                self.add(load_backend(name))
            except UnidevError as error:  # noqa: PERF203  the others still work
                self.not_seen[name] = str(error)

    def _late(self) -> Iterator[tuple[str, str]]:
        """The backends that have not been tried though their framework is imported, with it."""
        for name, spec in backend_specs().items():
            is_tried = name in self.blind_spots or name in self.not_seen
            if not is_tried and sys.modules.get(spec.framework) is not None:
                yield name, spec.framework

    def add(self, backend: Backend) -> None:
        """Open the tracer of ``backend``; if that fails, keep the reason."""
        if backend.name in self.blind_spots:
            return
        self.lines.pass_over(backend)
        tracer = backend.tracer
        if isinstance(tracer, Unsupported):
            self.not_seen[backend.name] = tracer.reason
            return
        try:
            scope = tracer.watch(partial(self._begin_foreign, tracer.is_seconds_real), self._end)
            self.enter(scope)
        except UnidevError as error:
            self.not_seen[backend.name] = str(error)
            return
        if backend.simulated_count and tracer.gpu_queries:
            self.enter(queries_of(backend))
        self.blind_spots[backend.name] = dict(tracer.blind_spots)
        self.not_seen.pop(backend.name, None)

    def enter(self, scope: AbstractContextManager[None]) -> None:
        """Enter ``scope`` until the recorder closes."""
        scope.__enter__()
        self._scopes.append(scope)

    def note_variable(self, variable: str, before: str | None, now: str | None) -> None:
        """Note that ``variable`` has been changed, if that is too late for the driver."""
        change = note(variable, before, now, str(self.lines.here()[0]))
        self.late_changes.pop(variable, None)
        if change is not None:
            self.late_changes[variable] = (
                f"changed at {change.line}, after the driver had been initialised, which has no "
                f"effect: {change}"
            )

    def note_gpu_query(self, name: str, backend: Backend, asker: FrameType) -> None:
        """Note that ``name`` sees no simulated GPU, if the user's own code has called it."""
        if self.lines.is_of_user(asker):
            names = (backend.native_name("gpu", i) for i in range(backend.simulated_count))
            self.gpu_queries.setdefault(
                name,
                f"called at {self.lines.line_of(asker)}, it sees no GPU: {backend.spec.framework} "
                f"calls the simulated ones {', '.join(names)}",
            )

    def close(self) -> None:
        """Leave every tracer's scope in reverse order, even if one of them raises."""
        while self._scopes:
            scope = self._scopes.pop()
            try:
                scope.__exit__(None, None, None)
            except BaseException:
                self.close()
                raise

    def missed(self) -> dict[str, str]:
        """Backends that are not traced at the moment, and why."""
        late = {
            name: f"another thread imported {framework} after this one began to record"
            for name, framework in self._late()
        }
        return {**self.not_seen, **late}

    def races(self) -> list[Race]:
        """Those of this process so far, where simulated GPUs lose them."""
        return races()

    @property
    def is_idle(self) -> bool:
        """Whether no trace and no guard is open."""
        return not self.traces and not self.guards

    # -- what moves --------------------------------------------------------------------------------

    def own_call(
        self,
        operation: str,
        transfers: Sequence[PlannedTransfer],
        is_explicit: bool,
        function: Callable[..., T],
        *arguments: Any,
    ) -> T:
        """Call ``function(*arguments)``, part of a unidev verb, and record its ``transfers``.

        Transfers that tracers or nested verbs report meanwhile are not recorded a second time.
        """
        if self.is_idle:  # the last trace or guard was left in another thread
            close(self)
            return function(*arguments)
        outer = self._verb
        if outer is None:
            self.lines.begin_verb()
        is_own = outer is None or outer == operation
        try:
            begun = [self._begin(moved, is_explicit, True) for moved in transfers] if is_own else []
            self._verb = operation if outer is None else outer
            start = time.perf_counter()
            result = function(*arguments)
        finally:
            self._verb = outer
            if outer is None:
                self.lines.verb_call = None
        seconds = time.perf_counter() - start
        total = sum(each.nbytes for each in begun if each is not None)
        for each in begun:
            if each is not None:
                share = each.nbytes / total if total else 1 / len(begun)
                self._record(each._replace(start=start, seconds=seconds * share))
        return result

    def exchanged(self, start: float, seconds: float, hidden_s: float) -> None:
        """Record an exchange of gradients with other workers; the fields of ``Exchange``."""
        for trace in self.traces:
            trace.add_exchange(Exchange(start, seconds, hidden_s))

    def _begin_foreign(self, is_seconds_real: bool, transfer: PlannedTransfer) -> Transfer | None:
        return None if self._verb is not None else self._begin(transfer, False, is_seconds_real)

    def _begin(
        self, transfer: PlannedTransfer, is_explicit: bool, is_seconds_real: bool
    ) -> Transfer | None:
        """The transfer, which has taken no time yet; None: nobody wants to know of it."""
        mode = self.guards[-1].mode if self.guards and not is_explicit else "allow"
        is_guarded = mode != "allow"
        if not self.traces and not is_guarded:
            return None
        line, call = self.lines.here()
        if is_guarded:
            _check_guard(mode, transfer, line)
        is_real = is_seconds_real and not (
            transfer.source.is_simulated or transfer.target.is_simulated
        )
        return Transfer(
            *transfer, seconds=0.0, thread=current_thread().name, line=line,
            is_explicit=is_explicit, is_seconds_real=is_real, start=time.perf_counter(), call=call,
        )  # fmt: skip

    def _end(self, begun: Transfer | None) -> None:
        if begun is not None:
            self._record(begun._replace(seconds=time.perf_counter() - begun.start))

    def _record(self, transfer: Transfer) -> None:
        for trace in self.traces:
            trace.add(transfer)


def _check_guard(mode: str, transfer: PlannedTransfer, line: Line) -> None:
    """Raise or log an implicit transfer, depending on the innermost guard's ``mode``."""
    size = "tensors" if transfer.shape is None else f"a tensor of shape {transfer.shape}"
    moves = "would move" if mode == "forbid" else "moves"
    message = (
        f"implicit transfer: {spoken(transfer.operation)} {moves} {size}, "
        f"{bytes_text(transfer.nbytes)}, from {transfer.source} to {transfer.target}; at {line}"
        + (f": {line.source}" if line.source else "")
        + f"\n{remedy(transfer)}"
    )
    if mode == "forbid":
        raise TransferForbiddenError(message, transfer=transfer, line=line)
    logging.getLogger("unidev.transfers").warning("%s", message)


def current() -> Recorder | None:
    """The recorder of this thread, if it has one."""
    recorder = thread.recorder
    assert recorder is None or isinstance(recorder, Recorder)
    return recorder


def join() -> Recorder:
    """The recorder of this thread, created if necessary, for one more trace or guard."""
    recorder = current()
    if recorder is not None:
        recorder.catch_up()
        return recorder
    recorder = Recorder()
    backend_specs()  # first: an import that it makes must not ask a finder that needs its answer
    _seek_imports(1)
    thread.recorder = recorder
    try:
        recorder.enter(environment_changes)
        recorder.catch_up()
    except BaseException:
        close(recorder)
        raise
    return recorder


def leave(recorder: Recorder | None, entered: Record | Guard | None, what: str) -> None:
    """Remove the innermost ``entered`` of ``recorder``; it need not be the last one entered.

    A generator may be closed in another thread than the recorder's, which then stops to watch at
    its next call of unidev: frameworks let a thread change only its own hooks.

    Raises:
        ScopeError: it was not entered, or has already been left.
    """
    if recorder is None or not (
        _take_out(recorder.traces, entered) or _take_out(recorder.guards, entered)
    ):
        raise ScopeError(
            f"`with {what}:` was exited, but it was not entered, or was already exited."
        )
    if isinstance(entered, Record):
        entered.finish()
    if recorder is thread.recorder and recorder.is_idle:
        close(recorder)


def _take_out(found: list[Any], entered: object) -> bool:
    for position in reversed(range(len(found))):
        if found[position] is entered:
            del found[position]
            return True
    return False


def close(recorder: Recorder) -> None:
    """End the recorder of this thread."""
    thread.recorder = None
    _seek_imports(-1)
    recorder.close()


class GpuQueries(Patches):
    """The functions that ``Tracer.gpu_queries`` lists, replaced while a thread records."""

    def __init__(self, backend: Backend) -> None:
        super().__init__()
        self._backend = backend

    def replacements(self) -> Iterator[tuple[Any, str, Any]]:
        """Each function, wrapped: an answer that there is no GPU is noted."""
        for name, owner in self._backend.tracer.gpu_queries.items():
            attribute = name.rpartition(".")[2]
            if hasattr(owner, attribute):  # not in every version
                yield owner, attribute, self._noting(getattr(owner, attribute), name)

    def _noting(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        @wraps(function)
        def asked(*arguments: Any, **options: Any) -> Any:
            asker = sys._getframe(1)
            try:
                answer = function(*arguments, **options)
            except RuntimeError:  # as `jax.devices("gpu")`
                self._note(name, asker)
                raise
            if not answer or answer == "cpu":
                self._note(name, asker)
            return answer

        return asked

    def _note(self, name: str, asker: FrameType) -> None:
        if (recorder := current()) is not None:
            recorder.note_gpu_query(name, self._backend, asker)


queries_of = cache(GpuQueries)
"""Those of a backend, which all threads share."""


class EnvironmentChanges(Patches):
    """``os.putenv`` and ``os.unsetenv``, which ``os.environ`` calls, replaced while recording."""

    def replacements(self) -> Iterator[tuple[Any, str, Any]]:
        """Both, wrapped: what a recording thread changes is noted."""
        yield os, "putenv", _noting(os.putenv)
        yield os, "unsetenv", _noting(os.unsetenv)


def _noting(function: Callable[..., None]) -> Callable[..., None]:
    @wraps(function)
    def changed(name: Any, *value: Any) -> None:
        recorder, variable = thread.recorder, os.fsdecode(name)
        if recorder is None or variable not in _VARIABLES:
            function(name, *value)
            return
        before = os.environ.get(variable)  # which is updated after this call
        function(name, *value)
        now = os.fsdecode(value[0]) if value else None
        if before != now:
            recorder.note_variable(variable, before, now)

    return changed


environment_changes = EnvironmentChanges()
"""The one that all threads share."""


class _Finder(FrameworkFinder):
    """Has a recording thread record what it imports.

    In ``sys.meta_path`` while any thread records. In such a thread, a framework is imported through
    its backend, with simulated devices if configured, and recorded by the time the import statement
    returns. Nothing can have moved before that.
    """

    def is_wanted(self) -> bool:
        """Whether this thread records."""
        return thread.recorder is not None

    def could_not_load(self, backend: str, error: UnidevError) -> None:
        """Note the reason in the recorder: the program goes on without being traced."""
        if thread.recorder is not None:
            thread.recorder.not_seen[backend] = str(error)


_finder = _Finder()
_finder_lock = fork_safe_lock()
_recorders = 0


def _seek_imports(change: int) -> None:
    """Count the open recorders: the first installs the finder, and the last removes it."""
    global _recorders
    with _finder_lock:
        before, _recorders = _recorders, _recorders + change
        if not before:
            sys.meta_path.insert(0, _finder)
        elif not _recorders:
            sys.meta_path.remove(_finder)
