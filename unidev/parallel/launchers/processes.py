"""The launcher ``processes``: workers on this machine, by the standard library."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from unidev.contract.launcher import Launcher
from unidev.system.host.folders import own_folder
from unidev.system.host.host import WorkerHost
from unidev.system.host.ports import LOOPBACK, free_ports

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unidev.system.host.events import Event, HelperProcess, Job
    from unidev.system.host.frames import Frame


class Processes(Launcher):
    """Workers that are children of this process."""

    def __init__(self, size: int, address: str | None) -> None:
        super().__init__(size, address)
        self._scope = ExitStack()
        self._host = WorkerHost()

    def place(self, gpus: int) -> None:  # noqa: ARG002  each worker takes its own of the machine's
        """All are here."""
        self.hosts = (LOOPBACK,) * self.size

    def free_ports(self, counts: Sequence[int]) -> Sequence[Sequence[int]]:
        """Ports of the loopback interface."""
        return free_ports(counts)

    def shared_folder(self) -> str | None:
        """A folder of this run's own."""
        return self._scope.enter_context(own_folder())

    def start(self, jobs: Sequence[Job], helpers: Sequence[HelperProcess]) -> None:
        """Start all as children of this process."""
        self._host.start(jobs, helpers)

    def send(self, rank: int, frame: Frame) -> None:
        """By the worker's pipe."""
        self._host.send(rank, frame)

    def events(self, timeout_s: float) -> Sequence[Event]:
        """From the workers' pipes."""
        return self._host.events(timeout_s)

    def hindrance(self, rank: int) -> str | None:
        """By the state of the process."""
        return self._host.hindrance(rank)

    def stack_of(self, rank: int) -> str:
        """By ``faulthandler``."""
        return self._host.stack_of(rank)

    def end(self) -> None:
        """Kill the sessions of all workers and helpers."""
        self._host.end()
        self._scope.close()
