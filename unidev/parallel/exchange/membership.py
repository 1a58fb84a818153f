"""A process's membership of a run: its rank, GPUs, channel and thread."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from unidev.parallel.messages.channel import check_process

if TYPE_CHECKING:
    from unidev.contract.group_engine import Rendezvous
    from unidev.parallel.messages.channel import Channel, EngineLink
    from unidev.system.host.board import Mark

MOST = 4096
"""The most workers of a run, GPUs of each of them, and retries."""


@dataclass
class Membership:
    """One worker's part in a run."""

    rank: int
    size: int
    gpus: int
    """How many GPUs it has for itself."""
    backend: str
    """Its name; "" is the active one."""
    rendezvous: Rendezvous | None
    timeout_s: float
    checkpoints: str | None
    attempt: int
    channel: Channel | EngineLink | None
    """None if there are no other workers."""
    mark: Mark
    first_gpu: int = 0
    """The number of the first of them in this process, which sees others only under torchrun."""
    joins_first: bool = False
    """Whether it joins before anything else, not at its first exchange."""
    thread: threading.Thread = field(default_factory=threading.current_thread)
    """The one in which the function runs."""
    process: int = field(default_factory=os.getpid)
    is_importing_main: bool = False

    def check_process(self) -> None:
        """Raise UnsupportedOperation in a fork of a worker, which is not one itself."""
        if self.channel is not None:
            check_process(self.process)


current: Membership | None = None
"""None in a process that is not a worker."""
