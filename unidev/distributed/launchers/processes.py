"""The launcher ``processes``: workers on this machine, by the standard library."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from unidev.contract.launcher import Launcher
from unidev.distributed.exchange.ports import LOOPBACK, free_ports
from unidev.distributed.launchers.gpus import gpu_count
from unidev.distributed.launchers.run_folders import RUN, own_folder
from unidev.distributed.workers.worker_host import WorkerHost
from unidev.errors import DeviceNotFoundError
from unidev.support.printing import say
from unidev.support.wording import count_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unidev.contract.group_engine import HelperProcess
    from unidev.contract.launcher import Event, Frame, Job


class Processes(Launcher):
    """Workers that are children of this process."""

    def __init__(self, size: int, gpus: int | None, address: str | None) -> None:  # noqa: ARG002
        self.hosts = (LOOPBACK,) * size
        self._gpus = gpus
        self._scope = ExitStack()
        self._folder: str | None = None
        self._place = WorkerHost()

    def gpus_per_worker(self, backend: str) -> int:
        """As requested; or one, if each worker can have its own."""
        size = len(self.hosts)
        if self._gpus == 0:
            return 0
        there = gpu_count(backend)
        if self._gpus is None:
            if 0 < there < size:
                say(
                    f"{count_text(there, 'GPU')} for {count_text(size, 'worker')}: all of them use "
                    "the CPU."
                )
            return int(there >= size)
        if self._gpus * size > there:
            raise DeviceNotFoundError(
                f"{count_text(size, 'worker')} with {count_text(self._gpus, 'GPU')} each need "
                f"{self._gpus * size}, and this machine has {there}: use fewer workers, or "
                "gpus_per_worker=0 for the CPU."
            )
        return self._gpus

    def free_ports(self, counts: Sequence[int]) -> Sequence[Sequence[int]]:
        """Ports of the loopback interface."""
        return free_ports(counts)

    def shared_folder(self) -> str | None:
        """A folder of this run's own."""
        if self._folder is None:
            self._folder = self._scope.enter_context(own_folder(RUN))
        return self._folder

    def start(self, jobs: Sequence[Job], helpers: Sequence[HelperProcess]) -> None:
        """Start all as children of this process."""
        self._place.start(jobs, helpers)

    def send(self, rank: int, frame: Frame) -> None:
        """By the worker's pipe."""
        self._place.send(rank, frame)

    def events(self, timeout_s: float) -> Sequence[Event]:
        """From the workers' pipes."""
        return self._place.events(timeout_s)

    def hindrance(self, rank: int) -> str | None:
        """By the state of the process."""
        return self._place.hindrance(rank)

    def stack_of(self, rank: int) -> str:
        """By ``faulthandler``."""
        return self._place.stack_of(rank)

    def end(self) -> None:
        """Kill the sessions of all workers and helpers."""
        self._place.end()
        self._scope.close()
