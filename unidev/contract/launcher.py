"""``Launcher``: the part of the contract for starting the workers of a run.

A launcher plugin is a module with one hook, ``unidev_register_launcher``, which returns a
:class:`LauncherSpec`; installed with an entry point in the group ``unidev``, as a backend's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from unidev.system.host.events import Event, HelperProcess, Job
    from unidev.system.host.frames import Frame


@dataclass(frozen=True, kw_only=True)
class Forks:
    """What a process imports before it forks into the workers of a run, which then start at once.

    Only for a framework that a fork survives after its import: in the forks it then computes, draws
    random numbers and joins its group as in a new process. Nothing computes before.
    """

    modules: tuple[str, ...] = ()
    """Modules that most first steps import, besides the module of ``BackendSpec.load``."""
    slow_modules: tuple[str, ...] = ()
    """Those that take as long as the framework, and that some first steps do not import.

    They are imported before the fork if there are more workers than processors: otherwise the
    workers import them at the same time, and only where they need them.
    """
    reads: tuple[str, ...] = ()
    """How names of variables begin that the imports read, such as ``TORCH_``.

    Where one differs between workers, each is a new process, as for those of OpenMP and BLAS.
    """
    reseed: str | None = None
    """``module:function``, called in each fork without arguments: seeds the framework anew."""
    simulates: bool = False
    """Whether the simulator can start after the import, as in the forks it does."""


@dataclass(frozen=True, kw_only=True)
class LauncherSpec:
    """A plugin's registration of a launcher."""

    name: str
    """For ``run(launcher=…)`` and ``unidev launch --launcher``."""
    contract_version: int
    """The ``CONTRACT_VERSION`` that the plugin was written for, as a literal number."""
    load: str | Callable[[], type[Launcher]]
    """The class as ``module:name``, imported on first use; or a function that returns it."""
    takes_address: bool = False
    """Whether it reaches other machines, by ``run(address=…)``.

    If only one launcher that is installed does, ``run(address=…)`` uses it without its name.
    """
    variables: Mapping[str, str] = field(default_factory=dict)
    """The environment variables that it reads, each with its meaning, for ``unidev info``.

    Their names begin with ``UNIDEV_``: others are not looked at."""


class Launcher(ABC):
    """The workers of one run: started, heard and ended together.

    The methods are called from one thread, in this order: ``gpu_count``, ``place``, ``free_ports``,
    ``shared_folder``, ``start``, any of the others, and ``end``, which is always called once the
    object is made, also after an error or Ctrl-C in any of them. ``WorkerHost`` works on each host.
    """

    hosts: tuple[str, ...]
    """The address of each worker's host, by rank; set by ``place``."""
    gpus_are_of = "this machine"
    """Who has the GPUs that ``gpu_count`` counts, for messages."""

    def __init__(self, size: int, address: str | None) -> None:
        """Prepare a run of ``size`` workers; ``end`` is not called if it raises.

        ``address`` is that of ``run``, None unless ``LauncherSpec.takes_address``.
        """
        self.size = size
        self.address = address

    def gpu_count(self) -> int | None:
        """How many GPUs the workers can have together; not asked if they are to use the CPU.

        None, as here: those of this machine, which unidev counts for the backend. Simulated GPUs
        are as many in each worker, if it is not None.
        """
        return None

    @abstractmethod
    def place(self, gpus: int) -> None:
        """Find a place for each worker, with so many real GPUs for itself, and set ``hosts``."""

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
        """The events since the last call; waits up to ``timeout_s`` for the first.

        Those of one worker come in its order, ``Ended`` last, and once.
        """

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
