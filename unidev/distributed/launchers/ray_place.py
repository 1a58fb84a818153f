"""An actor of Ray: a worker's process, and its messages to the process that started the run."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

from unidev.distributed.exchange.ports import free_ports
from unidev.distributed.workers.worker_host import WorkerHost

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unidev.contract.group_engine import HelperProcess
    from unidev.contract.launcher import Event, Frame, Job


class RayPlace:
    """One worker on this machine.

    Ray calls ``send`` and ``end`` in other threads than ``events``, which waits.
    """

    def __init__(self) -> None:
        self._place = WorkerHost()
        self._waiting: deque[tuple[int, Frame]] = deque()
        self._using = threading.Lock()
        self._is_over = False

    def host(self) -> str:
        """The address of this machine, as Ray knows it."""
        import ray

        return str(ray.util.get_node_ip_address())

    def free_ports(self, count: int) -> list[int]:
        """Ports of this host."""
        return free_ports([count])[0]

    def start_helpers(self, helpers: Sequence[HelperProcess]) -> None:
        """Start processes beside the workers."""
        self._place.start_helpers(helpers)

    def start(self, job: Job) -> None:
        """Start the worker."""
        self._place.start([job], ())

    def send(self, rank: int, frame: Frame) -> None:
        """Queue a message for the worker."""
        self._waiting.append((rank, frame))
        self._place.wake()

    def events(self, timeout_s: float) -> list[Event]:
        """The events since the last call; waits up to ``timeout_s`` for the first."""
        with self._using:
            if self._is_over:
                return []
            while self._waiting:
                self._place.send(*self._waiting.popleft())
            return self._place.events(timeout_s)

    def hindrance(self, rank: int) -> str | None:
        """Whether its process is stopped, in words."""
        return self._place.hindrance(rank)

    def stack_of(self, rank: int) -> str:
        """Where it is, which ends it."""
        return self._place.stack_of(rank)

    def end(self) -> None:
        """End the worker, and the helpers."""
        self._is_over = True
        self._place.wake()
        with self._using:
            self._place.end()
