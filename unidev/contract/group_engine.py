"""``GroupEngine``: the part of the contract for the framework's collectives between processes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from unidev.contract.optional import BackendPart

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from unidev.device import Device
    from unidev.system.host.events import HelperProcess

    Tensor = Any

_FLOATING = frozenset({"float16", "bfloat16", "float32", "float64"})


@dataclass(frozen=True)
class Rendezvous:
    """Hosts, ports, folder and time limit of a run, known before its workers start."""

    hosts: tuple[str, ...]
    """The address of each worker's host, by rank: ``127.0.0.1`` for all of them on one machine."""
    ports: tuple[int, ...]
    """A port that was free on each worker's host, by rank; different ones on one host."""
    helper_ports: tuple[int, ...]
    """As many free ports on the host of rank 0 as ``GroupSetting.helper_ports`` asks for."""
    folder: Path | None
    """An empty folder that all workers share and that goes with the run; None between machines."""
    timeout_s: float
    """How long the engine may wait for a worker; ``run`` gives up before, and names that one."""

    @property
    def size(self) -> int:
        """The number of workers."""
        return len(self.hosts)

    def own_interface(self, rank: int) -> str | None:
        """The network interface of this host that has the address of worker ``rank``, its own.

        Not that of the host's name: on Debian that resolves to 127.0.1.1, where nobody else comes.
        None on one machine, where no interface has that address, or where psutil is not installed.
        """
        if self.folder is not None or find_spec("psutil") is None:
            return None
        import psutil

        interfaces = psutil.net_if_addrs().items()
        own = self.hosts[rank]
        found = (name for name, addresses in interfaces if own in (x.address for x in addresses))
        return next(found, None)


@dataclass(frozen=True)
class Arrangement:
    """How the workers of one run find one another."""

    environment: tuple[Mapping[str, str], ...]
    """Variables for each worker, by rank, set before it imports the framework."""
    helpers: tuple[HelperProcess, ...] = ()
    """Started before the workers, and ended with them."""
    listens: str | None = None
    """A sentence for the user about the engine's listener beyond loopback; None: there is none."""


class GroupSetting(ABC):
    """Requirements of a framework's engine on the launcher; named by ``BackendSpec.group_setting``.

    It is used in the launcher's process: its module must not import the framework.
    """

    helper_ports: int = 0
    """How many ports on the host of rank 0 the helpers need."""
    joins_first: bool = False
    """Whether a worker must join before the framework computes anything, even at import."""

    @abstractmethod
    def prepare(self, rendezvous: Rendezvous) -> Arrangement:
        """Variables for each worker, and processes beside them. Starts and opens nothing."""


class GroupEngine(BackendPart, ABC):
    """The framework's collectives in one worker of a run.

    unidev compares structures, shapes and dtypes of all workers before it calls the engine, packs
    small tensors by ``Backend.collectives``, leaves out empty ones, casts to ``wider`` and back,
    and calls in the same order on every worker, where autograd does not record. All workers get the
    same bits. Trees of up to 4 MiB on the CPUs of one host travel without it, in shared memory; the
    suite sends them by it all the same. ``framework_errors`` become ``CollectiveError``.
    """

    carries: Mapping[str, frozenset[str]] = MappingProxyType({})
    """The portable dtypes for each of ``sum``, ``min``, ``max``, ``broadcast`` and ``gather``.

    What it does not carry travels by ``wider``, if that is exact, or else through the host.
    ``join`` may set it: to nothing, if the host is the better way for so many workers.
    """
    wider: Mapping[str, str] = MappingProxyType({"float16": "float32", "bfloat16": "float32"})
    """Dtypes that are summed in a wider one, by portable names."""
    narrow: frozenset[str] = frozenset()
    """Those of ``wider`` that the engine can also sum in their own width, if the user says so."""
    gathered: Mapping[str, frozenset[str]] = MappingProxyType({"min": _FLOATING, "max": _FLOATING})
    """Those of ``carries`` that unidev gathers and combines itself, in the order of ranks.

    By ``Collectives.combine``. By default floating-point minima and maxima, in which gloo, NCCL and
    TensorFlow may lose NaN; also sums in order of arrival. ``join`` may set it.
    """
    on_host: bool = False
    """Whether tensors must be on the CPU; unidev copies those of other devices there and back.

    ``join`` may set it, as it depends on the device.
    """

    abort_interrupts: bool = False
    """Whether ``abort`` lets a call of this worker's own raise, and is called during that, too."""
    joins_by_environment: bool = False
    """Whether ``join`` needs no more than RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.

    Then it also joins what torchrun has started; ``Rendezvous.folder`` is None there.
    """

    @abstractmethod
    def join(self, rank: int, rendezvous: Rendezvous, device: Device) -> None:
        """Join the others; called once, with the variables of ``Arrangement`` set.

        At the first exchange that needs it, if ever, unless ``GroupSetting.joins_first``.
        """

    def gather_numbers(self, numbers: Sequence[int], device: Device) -> Sequence[Sequence[int]]:
        """Those of all workers, by rank: a few integers of 64 bits from each; waits for them.

        Where not all workers are on one host, unidev calls it before each exchange, to compare what
        the workers are about to exchange. Here it is an ``all_gather`` of an int64 tensor on
        ``device``, this worker's own, or the CPU if the engine is ``on_host``; override it if the
        framework has a way that is cheaper, or that does not wait for the device.
        """
        import numpy as np

        backend = self.backend
        x = backend.from_numpy(np.array(numbers, "int64"), backend.dtypes["int64"], device)
        return [backend.to_numpy(found).tolist() for found in self.all_gather(x)]

    @abstractmethod
    def all_reduce(self, flat: Tensor, op: str) -> Tensor:
        """The sum, minimum or maximum over all workers; may write to ``flat`` and return it.

        Not for ``gathered``. Small tensors come packed; large ones have any shape and strides.
        """

    def start_all_reduce(self, flat: Tensor, op: str) -> Callable[[], Tensor]:
        """Begin ``all_reduce``; the function that is returned waits for it and gives the result.

        Several may be under way, begun in the same order on every worker. Here it is done at once.
        """
        found = self.all_reduce(flat, op)
        return lambda: found

    @abstractmethod
    def broadcast(self, flat: Tensor, root: int) -> Tensor:
        """The tensor of the worker ``root``; may write to ``flat``, which has its shape and dtype.

        Never writes to that of ``root``.
        """

    @abstractmethod
    def all_gather(self, flat: Tensor) -> Sequence[Tensor]:
        """The tensors of all workers, which have one shape and dtype, by rank, in new memory."""

    def abort(self, reason: str) -> None:  # noqa: ARG002  for engines whose errors can have it
        """Let the others' calls raise that wait for this worker, which has left one in the middle.

        In a thread of its own, so that it may wait. Here it is ``leave``, for engines whose
        connections then break. ``run`` ends workers whose calls do not return.
        """
        self.leave()

    def aborted(self) -> str:
        """The ``reason`` of a worker that has aborted, if the engine ``joins_by_environment``.

        Called after a call has raised; "" if it is not known.
        """
        return ""

    @abstractmethod
    def leave(self) -> None:
        """Close what ``join`` opened, and its threads, after all have finished.

        It must not wait for a worker.
        """
