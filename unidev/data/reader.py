"""``Reader``: one iteration of ``prefetch``, with the thread that reads ahead."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

from unidev.data.uploads import Ahead, Uploads
from unidev.registry.loading import backend_of_namespace, loaded_backends
from unidev.registry.scopes import inherited
from unidev.tracing.lending import Loan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from unidev.devices.finding import DeviceLike


class _Batch(NamedTuple):
    ahead: Ahead


class _Failure(NamedTuple):
    error: BaseException


class _End(NamedTuple):
    """There are no more batches."""


class Reader:
    """An iterator over batches that a thread of its own has brought to the device.

    The thread knows only the ``_Shelf``, so this object goes when the loop that uses it ends, and
    the thread with it.
    """

    def __init__(self, batches: Iterable[Any], device: DeviceLike, depth: int) -> None:
        shelf = _Shelf(_iterator_of(batches), depth)
        thread = threading.Thread(
            target=_read, args=(shelf, device, _Surroundings()), name="unidev-prefetch", daemon=True
        )
        self._shelf = shelf
        self._close = weakref.finalize(self, _close, shelf, thread)  # also at Python's end
        thread.start()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            found = self._shelf.take()
        except BaseException:  # Ctrl-C, while it waits
            self._close()
            raise
        if isinstance(found, _Batch):
            return found.ahead.handed_out()
        self._close()
        if isinstance(found, _Failure):
            raise found.error
        raise StopIteration

    def close(self) -> None:
        """End the thread; it has ended when this returns."""
        self._close()


class _Shelf:
    """Batches that wait for their use, at most ``depth``, counting the one that is being made."""

    def __init__(self, batches: Iterator[Any], depth: int) -> None:
        self.batches: Iterator[Any] | None = batches
        self.is_closed = False
        self._room = depth
        self._filled: deque[_Batch | _Failure | _End] = deque()
        self._changed = threading.Condition()

    def wait_for_room(self) -> bool:
        """Whether another batch is wanted, once there is room for it."""
        with self._changed:
            self._changed.wait_for(lambda: self.is_closed or self._room > 0)
            self._room -= 1
            return not self.is_closed

    def put(self, found: _Batch | _Failure | _End) -> None:
        """The next batch, or how it ended."""
        with self._changed:
            if not self.is_closed:
                self._filled.append(found)
            self._changed.notify_all()

    def take(self) -> _Batch | _Failure | _End:
        """The next one, once it is there."""
        with self._changed:
            self._changed.wait_for(lambda: self.is_closed or self._filled)
            if self.is_closed:
                return _End()
            self._room += 1
            self._changed.notify_all()
            return self._filled.popleft()

    def close(self) -> None:
        """Want no more, and forget those that wait."""
        with self._changed:
            self.is_closed = True
            self._filled.clear()
            self._changed.notify_all()


class _Surroundings:
    """What the thread that iterates has: the frameworks' settings, its scopes, traces, guards."""

    def __init__(self) -> None:
        settings = [each.thread_settings() for each in loaded_backends.values()]
        self._parts = [*settings, inherited(), Loan()]

    def enter(self, stack: ExitStack) -> None:
        """Have them in this thread, too."""
        for part in self._parts:
            stack.enter_context(part)


def _iterator_of(batches: Iterable[Any]) -> Iterator[Any]:
    backend = backend_of_namespace(type(batches))
    return iter(batches) if backend is None else backend.batch_iterator(batches)


def _read(shelf: _Shelf, device: DeviceLike, surroundings: _Surroundings) -> None:
    with ExitStack() as stack:
        try:
            surroundings.enter(stack)
            _fill(shelf, device)
        except BaseException as error:  # noqa: BLE001  the loader's, raised where it is iterated
            shelf.put(_Failure(error))


def _fill(shelf: _Shelf, device: DeviceLike) -> None:
    batches = shelf.batches
    assert batches is not None
    uploads = Uploads(device)
    while shelf.wait_for_room():
        try:
            batch = next(batches)
        except StopIteration:
            shelf.put(_End())
            return
        there = uploads.put(batch)
        del batch
        shelf.put(_Batch(there))
        del there


def _close(shelf: _Shelf, thread: threading.Thread) -> None:
    shelf.close()
    if thread is not threading.current_thread():
        thread.join()
        shelf.batches = None  # the loader's workers end in the thread that has started them
