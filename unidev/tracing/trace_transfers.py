"""``trace_transfers``: what moves between devices, from which line, at what cost."""

from __future__ import annotations

from unidev.backends.observer import thread
from unidev.system.arguments import size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from unidev.tracing.recorder import Recorder
    from unidev.tracing.trace import Trace


class trace_transfers:  # noqa: N801  used as a function, in a `with`
    """``with unidev.trace_transfers() as trace:`` records every transfer between devices.

    Records this thread: unidev's own calls, and those of every framework that is imported before or
    inside the block (``x.item()``, ``x.cpu()``, printing, operands moved silently, …). Transfers
    that a framework does not expose are listed in ``trace.blind_spots`` and by ``print(trace)``.
    Nothing is patched or slower outside the block. Traces can be nested; each records everything
    inside its own block.

    Args:
        limit: how many transfers are kept one by one, in about 300 bytes each. The totals by line
            count all of them, and ``trace.left_out`` is the number of those that are not kept.

    Yields a ``Trace``: ``transfers``, ``by_line()``, ``total_bytes``, ``to_json()``,
    ``to_chrome_trace(path)``; ``print(trace)`` shows the most expensive line first, with advice.

    Raises:
        InvalidDataError: ``limit`` is not a non-negative integer.

    A transfer's time is that of the call that makes it. Reading from a GPU waits for the work
    queued there, and the time includes that wait. Times on simulated devices mean nothing.

    >>> import unidev
    >>> with unidev.trace_transfers() as trace:
    ...     x = unidev.copy_to(unidev.ones(1000), "cpu")  # from cpu:0 to cpu:0
    >>> trace.total_bytes
    0
    """

    def __init__(self, *, limit: int = 100_000) -> None:
        self._limit = size("trace_transfers's limit", limit, least=0)
        self._entered: list[tuple[Recorder, Trace]] = []

    def __enter__(self) -> Trace:
        from unidev.tracing.recorder import join
        from unidev.tracing.trace import Trace

        recorder = join()
        trace = Trace(recorder, self._limit)
        recorder.traces.append(trace)
        self._entered.append((recorder, trace))
        return trace

    def __exit__(self, *exc_info: object) -> None:
        from unidev.tracing.recorder import leave

        recorder, trace = self._entered.pop() if self._entered else (None, None)
        leave(recorder, trace, "trace_transfers()")


class InheritedTraces:
    """The open traces and guards of a thread, for another that works for it.

    Made in one thread; in a ``with`` in another, that thread records for the first.
    Transfers there without a line of the user's count for the line that made this. It ends early
    where the traces and guards of the first thread end.
    """

    def __init__(self) -> None:
        self._parent: Recorder | None = None
        self._own: Recorder | None = None
        if thread.recorder is not None:
            from unidev.tracing.recorder import current

            if (parent := current()) is not None:
                self._parent, self._line = parent, parent.lines.here()[0]

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
