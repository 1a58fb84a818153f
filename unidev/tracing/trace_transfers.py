"""``trace_transfers``: what moves between devices, from which line, at what cost."""

from __future__ import annotations

TYPE_CHECKING = False  # not typing's: importing that takes as long as all of unidev
if TYPE_CHECKING:
    from unidev.tracing.trace import Trace


class trace_transfers:  # noqa: N801  used as a function, in a `with`
    """``with unidev.trace_transfers() as trace:`` records every transfer between devices.

    Records this thread: unidev's own calls, and those of every framework that is imported before or
    inside the block (``x.item()``, ``x.cpu()``, printing, operands moved silently, …). Transfers
    that a framework does not expose are listed in ``trace.blind_spots`` and by ``print(trace)``.
    Nothing is patched or slower outside the block. Traces can be nested; each records everything
    inside its own block.

    Yields a ``Trace``: ``transfers``, ``by_line()``, ``total_bytes``, ``to_json()``,
    ``to_chrome_trace(path)``; ``print(trace)`` shows the most expensive line first, with advice.

    A transfer's time is that of the call that makes it. Reading from a GPU waits for the work
    queued there, and the time includes that wait. Times on simulated devices mean nothing.

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
