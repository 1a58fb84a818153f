"""``trace_transfers``: what moves between devices, from which line, at what cost."""

from __future__ import annotations

import sys

from unidev.errors import InvalidDataError
from unidev.support.arguments import non_negative_integer
from unidev.support.wording import shown

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
        if non_negative_integer(limit, sys.maxsize) is None:
            raise InvalidDataError(
                f"trace_transfers's limit must be a non-negative integer, not {shown(limit)}."
            )
        self._limit = limit
        self._entered: list[Trace] = []

    def __enter__(self) -> Trace:
        from unidev.tracing.recorder import join
        from unidev.tracing.trace import Trace

        recorder = join()
        trace = Trace(recorder, self._limit)
        recorder.traces.append(trace)
        self._entered.append(trace)
        return trace

    def __exit__(self, *exc_info: object) -> None:
        from unidev.tracing.recorder import leave

        trace = self._entered.pop() if self._entered else None
        leave(None if trace is None else trace.recorder, trace, "trace_transfers()")
