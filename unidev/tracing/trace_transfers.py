"""``trace_transfers``: what moves between devices, from which line, and what it costs."""

from __future__ import annotations

TYPE_CHECKING = False  # not typing's: importing that takes as long as all of unidev
if TYPE_CHECKING:
    from unidev.tracing.trace import Trace


class trace_transfers:  # noqa: N801  used as a function, in a `with`
    """``with unidev.trace_transfers() as trace:`` records every transfer between devices.

    Of this thread: unidev's own calls, and the framework's (``x.item()``, ``x.cpu()``, printing,
    operands that it moves silently, …) of every framework that is imported, or will be. What a
    framework does not let anyone see stands in ``trace.blind_spots``, and in ``print(trace)``.
    Nothing is patched or slower outside the block. Traces nest; each has all that it sees.

    Gives a ``Trace``: ``transfers``, ``by_line()``, ``total_bytes``, ``to_json()``,
    ``to_chrome_trace(path)``; ``print(trace)`` shows the most expensive line first, and what to do.

    A transfer's time is that of the call that makes it. Reading from a GPU waits for the work that
    is queued there; that is part of what the line costs. On simulated devices it says nothing.

    >>> import unidev
    >>> with unidev.trace_transfers() as trace:
    ...     x = unidev.copy_to(unidev.ones(1000), "cpu")  # from cpu:0 to cpu:0
    >>> trace.total_bytes
    0
    """

    def __init__(self) -> None:
        self._entered: list[Trace] = []

    def __enter__(self) -> Trace:
        from unidev.tracing.recorder import join
        from unidev.tracing.trace import Trace

        recorder = join()
        trace = Trace(recorder)
        recorder.traces.append(trace)
        self._entered.append(trace)
        return trace

    def __exit__(self, *exc_info: object) -> None:
        from unidev.tracing.recorder import leave

        trace = self._entered[-1] if self._entered else None
        leave(trace, "trace_transfers()")
        self._entered.pop()
