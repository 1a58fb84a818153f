"""An actor of Ray: a worker's process, its messages to the other workers and to ``run``."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from unidev.contract import Event, Frame, Progress, WorkerHost, free_ports

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unidev.contract import HelperProcess, Job

_HOLD_S = 0.05
"""How late ``run`` may hear of progress: much less than any time that a worker is waited for."""
_SMALL_BYTES = 1 << 16
"""Ray sends less than that along with the call."""


class RayPlace:
    """One worker on this machine.

    Ray calls ``send`` and ``end`` in other threads than ``events``, which waits.
    """

    def __init__(self) -> None:
        self._host = WorkerHost()
        self._waiting: deque[tuple[int, Frame]] = deque()
        self._using = threading.Lock()
        self._is_over = False
        self._places: Sequence[Any] = ()

    def host(self) -> str:
        """The address of this machine, as Ray knows it."""
        import ray

        util: Any = ray.util  # it has no types
        return str(util.get_node_ip_address())

    def free_ports(self, count: int) -> Sequence[int]:
        """Ports of this host."""
        return free_ports([count])[0]

    def start_helpers(self, helpers: Sequence[HelperProcess]) -> None:
        """Start processes beside the workers."""
        self._host.start_helpers(helpers)

    def start(self, job: Job) -> None:
        """Start the worker."""
        self._host.start([job], ())

    def meet(self, places: Sequence[Any]) -> None:
        """Know the actors of all workers, by rank: what these send one another goes to them."""
        self._places = places

    def send(self, rank: int, frame: Frame, body: Any) -> None:
        """Queue a message for the worker."""
        self._waiting.append((rank, frame._replace(body=body)))
        self._host.wake()

    def events(self, timeout_s: float) -> list[Event]:
        """The events since the last call; waits up to ``timeout_s`` for the first.

        Meanwhile messages between workers are passed on. For news of progress alone it does not
        return at once: they come with each exchange, which would wait for the next call.
        """
        until, found = time.monotonic() + timeout_s, list[Event]()
        with self._using:
            while not self._is_over and (left_s := until - time.monotonic()) > 0:
                while self._waiting:
                    self._host.send(*self._waiting.popleft())
                found += [each for each in self._host.events(left_s) if not self._passes_on(each)]
                if any(not isinstance(each.news, Progress) for each in found):
                    break
                if found:
                    until = min(until, time.monotonic() + _HOLD_S)
        return found

    def _passes_on(self, event: Event) -> bool:
        """Send a message to the actors of other workers; False if it is one for ``run``."""
        frame = event.news
        if not isinstance(frame, Frame):
            return False
        receivers = frame.receivers(event.rank, len(self._places))
        body: Any = bytes(frame.body) if receivers else b""
        if len(receivers) > 1 and len(body) > _SMALL_BYTES:
            import ray

            body = ray.put(body)  # once for all on a host
        message = frame.sent_by(event.rank)._replace(body=b"")
        for rank in receivers:
            self._places[rank].send.remote(rank, message, body)
        return bool(receivers)

    def hindrance(self, rank: int) -> str | None:
        """Whether its process is stopped, in words."""
        return self._host.hindrance(rank)

    def stack_of(self, rank: int) -> str:
        """Where it is, which ends it."""
        return self._host.stack_of(rank)

    def end(self) -> None:
        """End the worker, and the helpers."""
        self._is_over = True
        self._host.wake()
        with self._using:
            self._host.end()
