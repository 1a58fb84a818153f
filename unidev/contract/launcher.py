"""``Launcher``: the part of the contract for starting the workers of a run.

A launcher plugin is a module with one hook, ``unidev_register_launcher``, which returns a
:class:`LauncherSpec`; installed with an entry point in the group ``unidev``, as a backend's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from unidev.contract.group_engine import HelperProcess

MESSAGE, OUTPUT, PROGRESS, ENDED = "message", "output", "progress", "ended"


class Frame(NamedTuple):
    """A message between a worker and the process that called ``run``."""

    kind: int
    peer: int
    """The other end: a worker's rank, -1 for the process that called ``run``."""
    tag: int
    body: Any
    """Bytes, or anything with their buffer."""


class Progress(NamedTuple):
    """How far a worker has come in its collectives."""

    entered: int = 0
    left: int = 0
    operation: int = 0
    """A number of ``unidev.distributed.messages.board.OPERATIONS``."""


class Ended(NamedTuple):
    """The end of a worker's process."""

    code: int
    """Its exit code; of a signal, the negative number."""
    stack: str
    """The output of ``faulthandler``, if the process crashed."""


class Event(NamedTuple):
    """News of one worker."""

    kind: str
    """One of the constants above."""
    rank: int
    content: Any
    """A ``Frame``; ``(1 or 2, line)`` of stdout or stderr; a ``Progress``; an ``Ended``."""


class Job(NamedTuple):
    """One worker to be started."""

    rank: int
    environment: Mapping[str, str]
    """Variables that differ from those of the process that called ``run``."""
    order: bytes
    """The body of the first message to it."""


@dataclass(frozen=True, kw_only=True)
class LauncherSpec:
    """A plugin's registration of a launcher."""

    name: str
    """For ``run(launcher=…)`` and ``unidev launch --launcher``."""
    contract_version: int
    """The ``CONTRACT_VERSION`` that the plugin was written for, as a literal number."""
    load: str | Callable[[], type[Launcher]]
    """The class as ``module:name``, imported when it is first used; or a function that returns it.
    """


class Launcher(ABC):
    """The workers of one run: started, heard and ended together.

    The methods are called from one thread, in this order: ``free_ports``, ``start``, any of the
    others, ``end``, which is always called, also after an error or Ctrl-C in any of them.
    """

    hosts: tuple[str, ...]
    """The address of each worker's host, by rank; set by ``__init__``."""
    takes_address = False
    """Whether it reaches other machines, by an ``address``."""

    @abstractmethod
    def __init__(self, size: int, gpus: int | None, address: str | None) -> None:
        """Find a place for ``size`` workers with ``gpus`` each, and start nothing that remains.

        ``gpus`` is None if each shall have its own, if there are enough.
        """

    @abstractmethod
    def gpus_per_worker(self, backend: str) -> int:
        """How many of its host's GPUs each worker gets for itself, with this backend."""

    @abstractmethod
    def free_ports(self, counts: Sequence[int]) -> Sequence[Sequence[int]]:
        """So many free ports on the host of each worker, by rank; all different on one host."""

    @abstractmethod
    def shared_folder(self) -> str | None:
        """An empty folder that all workers share and ``end`` deletes; None between machines."""

    @abstractmethod
    def start(self, jobs: Sequence[Job], helpers: Sequence[HelperProcess]) -> None:
        """Start the helpers, on the host of rank 0, and the workers."""

    @abstractmethod
    def send(self, rank: int, frame: Frame) -> None:
        """Queue a message for a worker, which may have ended; must not wait for it."""

    @abstractmethod
    def events(self, timeout_s: float) -> Sequence[Event]:
        """The events since the last call; waits up to ``timeout_s`` for the first."""

    @abstractmethod
    def hindrance(self, rank: int) -> str | None:
        """Why that worker can neither work nor end, such as ``it is stopped (SIGSTOP)``, or None.

        For the message about a worker that others wait for.
        """

    @abstractmethod
    def stack_of(self, rank: int) -> str:
        """Where that worker is, by its stack; asking may end it. Not asked if it is hindered."""

    @abstractmethod
    def end(self) -> None:
        """End all workers, helpers and what they have started; return when none is left."""
