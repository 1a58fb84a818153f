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


class Processes(WorkerHost, Launcher):
    """Workers that are children of this process, which is their only host."""

    def __init__(self, size: int, address: str | None) -> None:
        Launcher.__init__(self, size, address)
        WorkerHost.__init__(self)
        self._scope = ExitStack()

    def place(self, gpus: int) -> None:  # noqa: ARG002  each worker takes its own of the machine's
        """All are here."""
        self.hosts = (LOOPBACK,) * self.size

    def free_ports(self, counts: Sequence[int]) -> Sequence[Sequence[int]]:
        """Ports of the loopback interface."""
        return free_ports(counts)

    def shared_folder(self) -> str | None:
        """A folder of this run's own."""
        return self._scope.enter_context(own_folder())

    def end(self) -> None:
        """Kill the sessions of all workers and helpers."""
        super().end()
        self._scope.close()
