"""``InheritedTraces``: the open traces and guards of a thread, for another that works for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unidev.registry.observer import thread

if TYPE_CHECKING:
    from unidev.tracing.recorder import Recorder


class InheritedTraces:
    """Made in one thread; in a ``with`` in another, that thread records for the first.

    What moves there without a line of the user's counts for the line that made the loan. It ends
    early where the traces and guards of the first thread end.
    """

    def __init__(self) -> None:
        self._parent = thread.recorder
        self._own: Recorder | None = None
        if self._parent is not None:
            self._line = self._parent.lines.here()[0]

    def __enter__(self) -> None:
        if self._parent is None:
            return
        from unidev.tracing.recorder import join

        own = self._own = join()
        own.lines.elsewhere = self._line
        own.traces, own.guards = self._parent.traces, self._parent.guards

    def __exit__(self, *_exc_info: object) -> None:
        from unidev.tracing.recorder import close

        if self._own is not None and thread.recorder is self._own:
            close(self._own)
