"""``Reader``: one iteration of ``prefetch``, with the thread that reads ahead."""

from __future__ import annotations

import _thread
import atexit
import os
import signal
import sys
import threading
import time
import weakref
from collections import deque
from contextlib import ExitStack, suppress
from functools import partial
from itertools import chain
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from unidev.backends.discovery import backend_specs
from unidev.backends.loading import backend_of_namespace, load_backend, loaded_backends
from unidev.backends.scopes import inherited
from unidev.errors import InvalidDataError, UnidevError, UnsupportedOperation
from unidev.parallel.batches.uploads import Uploads
from unidev.system.interrupts import held_interrupts
from unidev.system.wording import shown
from unidev.tracing.trace_transfers import InheritedTraces

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager

    from unidev.parallel.batches.uploads import Ahead
    from unidev.tensors.devices import DeviceLike

_PATIENCE_S = 5.0
"""How long Ctrl-C, or Python's end, waits for a thread whose loader may block for ever."""
_SLICE_S = 0.05


class Reader:
    """An iterator over batches that a thread of its own has brought to the device.

    The thread knows only the ``_Queue``, so this object goes when the loop that uses it ends, and
    the thread with it.
    """

    def __init__(
        self, batches: Iterable[Any], device: DeviceLike, depth: int, dtype: object
    ) -> None:
        queue = _Queue(_iterator_of(batches), depth)
        context = [*_settings(), inherited(), InheritedTraces()]
        thread = threading.Thread(
            target=_read,
            args=(queue, Uploads(device, dtype), context),
            name="unidev-prefetch",
            daemon=True,
        )
        self._queue = queue
        self._process = os.getpid()
        self._ending = _Ending.of(self, queue, thread)
        try:
            with held_interrupts():
                thread.start()
        except BaseException:  # Ctrl-C, whose traceback keeps this object
            self.close()
            raise

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            return self._next()
        except BaseException:  # also the last one, and Ctrl-C, whose traceback keeps this object
            self.close()
            raise

    def _next(self) -> Any:
        if os.getpid() != self._process:
            raise UnsupportedOperation(
                "next() of prefetch in a forked child",
                "only the parent has the thread that reads: begin the iteration after the fork",
            )
        found = self._queue.take()
        if isinstance(found, BaseException):
            try:
                raise found
            finally:
                del found  # whose traceback has this frame: only a collection would end the loader
        return found.handed_out()

    def close(self) -> None:
        """End the thread; it has ended when this returns.

        After Ctrl-C, a thread whose loader does not return is left to itself within seconds.
        """
        with held_interrupts() as interrupts:
            self._ending.end(interrupts)


class _Ending(weakref.ref[Reader]):
    """Ends the thread of a ``Reader`` that is not used any more."""

    queue: _Queue
    thread: threading.Thread
    process: int

    @classmethod
    def of(cls, reader: Reader, queue: _Queue, thread: threading.Thread) -> _Ending:
        """For one reader; is kept until its end, since its callback would go with it."""
        # Python ignores what is raised in a callback, such as a Ctrl-C that has waited for the
        # thread. So the callback is C's: it iterates, by `__iter__`, and the first Python code in
        # which the Ctrl-C can be raised is that after the loop.
        own = cls(reader, deque[None](maxlen=0).extend)
        own.queue, own.thread, own.process = queue, thread, os.getpid()
        _endings.add(own)
        return own

    def __iter__(self) -> Iterator[None]:
        signals: set[int] = set()
        is_over = False
        while not is_over:
            try:
                with held_interrupts() as interrupts:
                    self.end(interrupts)
                    vars(self).clear()  # now: callbacks of what goes with it are Python code, too
                    signals |= interrupts.taken()
                    is_over = True
            except KeyboardInterrupt:  # noqa: PERF203  before it was held, or after
                signals.add(signal.SIGINT)
        raised = [partial(_thread.interrupt_main, signal.Signals(each)) for each in signals]
        return chain(*[iter(each, None) for each in raised])

    def end(self, interrupts: held_interrupts) -> None:
        """Want no more batches, and wait for the thread; after Ctrl-C no longer than seconds."""
        _endings.discard(self)
        if self.process != os.getpid():
            return  # a fork of it has no thread, but perhaps its lock
        self.queue.close()
        if self.thread is threading.current_thread():
            return
        until = None
        while self.thread.is_alive() and (until is None or time.monotonic() < until):
            self.thread.join(_SLICE_S)
            if interrupts.is_pending and until is None:
                until = time.monotonic() + _PATIENCE_S
        self.queue.forget_batches()


_endings: set[_Ending] = set()


@atexit.register
def _end_all() -> None:
    """End what is still being read; a loader that blocks for ever holds up Python's end briefly."""
    until = time.monotonic() + _PATIENCE_S
    left = [each for each in _endings if each.process == os.getpid()]
    for each in left:
        each.queue.close()
    for each in left:
        each.thread.join(max(0.0, until - time.monotonic()))
        if not each.thread.is_alive():
            each.queue.forget_batches()


class _Queue:
    """Batches that wait for their use, at most ``depth``, counting the one that is being made."""

    def __init__(self, batches: Iterator[Any], depth: int) -> None:
        self.batches: Iterator[Any] | None = batches
        self.is_closed = False
        self._room = depth
        self._filled: deque[Ahead | BaseException] = deque()
        self._changed = threading.Condition()

    def wait_for_room(self) -> bool:
        """Whether another batch is wanted, once there is room for it."""
        with self._changed:
            self._changed.wait_for(lambda: self.is_closed or self._room > 0)
            self._room -= 1
            return not self.is_closed

    def put(self, found: Ahead | BaseException) -> None:
        """The next batch, or the loader's error; StopIteration after the last one."""
        with self._changed:
            if not self.is_closed:
                self._filled.append(found)
            self._changed.notify_all()

    def take(self) -> Ahead | BaseException:
        """The next one, once it is there."""
        with self._changed:
            self._changed.wait_for(lambda: self.is_closed or self._filled)
            if self.is_closed:
                return StopIteration()
            self._room += 1
            self._changed.notify_all()
            return self._filled.popleft()

    def close(self) -> None:
        """Want no more, and forget those that wait."""
        with self._changed:
            self.is_closed = True
            self._filled.clear()
            self._changed.notify_all()

    def forget_batches(self) -> None:
        """Let the loader go, in the thread that has started its workers.

        An iterator over a generator may end a scope here that was entered in the reading thread,
        such as ``torch.no_grad``, whose end sets the mode of the thread that it runs in.
        """
        with ExitStack() as stack:
            for each in _settings():
                stack.enter_context(each)
            self.batches = None


def _settings() -> list[AbstractContextManager[Any]]:
    """What each framework keeps for this thread, also one with which only the loader computes."""
    for spec in backend_specs().values():
        if spec.framework in sys.modules:
            with suppress(UnidevError):  # then unidev cannot be used with it
                load_backend(spec.name)
    return [each.thread_settings() for each in loaded_backends.values()]


def _iterator_of(batches: Iterable[Any]) -> Iterator[Any]:
    backend = backend_of_namespace(type(batches))
    try:
        return iter(batches) if backend is None else backend.batch_iterator(batches)
    except TypeError as error:  # such as a tensor without dimensions, which has an `__iter__`
        raise InvalidDataError(f"prefetch cannot iterate over {shown(batches)}: {error}") from error


def _read(queue: _Queue, uploads: Uploads, context: list[AbstractContextManager[Any]]) -> None:
    """Read in the ``context`` of the iterating thread: settings, scopes, traces and guards."""
    with ExitStack() as stack:
        try:
            for part in context:
                stack.enter_context(part)
            _fill(queue, uploads)
        except BaseException as error:  # noqa: BLE001  the loader's, raised where it is iterated
            queue.put(error)


def _fill(queue: _Queue, uploads: Uploads) -> None:
    batches = queue.batches
    assert batches is not None
    try:
        while queue.wait_for_room():
            try:
                batch = next(batches)
            except StopIteration:
                queue.put(StopIteration())
                return
            there = uploads.put(batch)
            del batch
            queue.put(there)
            del there
    finally:
        if isinstance(batches, GeneratorType):  # here, where it has entered its scopes
            batches.close()
