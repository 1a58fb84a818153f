"""The engines by which one worker exchanges tensors: chosen, and joined at the first need."""

from __future__ import annotations

import math
from threading import Thread
from typing import TYPE_CHECKING, Any

from unidev.contract.backend import Unsupported
from unidev.contract.dtypes import portable_name
from unidev.errors import BackendMismatchError, CollectiveError, UnidevError
from unidev.parallel.devices.packing import nbytes_of
from unidev.parallel.exchange.host_engine import (
    HostEngine,
    MemoryCarrier,
    MessageCarrier,
    SingleWorkerEngine,
)
from unidev.parallel.messages.channel import Channel
from unidev.parallel.messages.relay import Relay
from unidev.system.host.board import JOINING, OPERATIONS
from unidev.system.host.neighbours import shared_by_all

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from unidev.contract.backend import Backend
    from unidev.contract.group_engine import GroupEngine
    from unidev.device import Device
    from unidev.parallel.devices.packing import Kind
    from unidev.parallel.exchange.membership import Membership
    from unidev.system.host.neighbours import Shared

    Tensor = Any


QUICK_BYTES = 4 << 20
"""Up to so many bytes travel by shared memory sooner than by any engine; 32 MiB take as long."""


class Engines:
    """The engines of each backend whose tensors this worker exchanges."""

    def __init__(self, own: Membership, device: Callable[[], Device]) -> None:
        self._own = own
        self._device = device
        self._host_engines: dict[str, GroupEngine | None] = {}
        self._made: dict[str, list[GroupEngine]] = {}
        self._joined: list[GroupEngine] = []
        self._aborting: list[Thread] = []
        self._shared: Shared | None = None
        """Its files stay open as long as this is there."""
        self.relay = (
            Relay(own.channel, own.rank, own.size) if isinstance(own.channel, Channel) else None
        )
        """The way through worker 0, where the launcher's channel is ours."""
        if isinstance(own.channel, Channel):
            own.channel.on_heard = self._interrupt

    def of(self, backend: Backend) -> list[GroupEngine]:
        """Those for the tensors of ``backend``, the preferred one first; joins it, a collective."""
        if backend.name not in self._made:
            host = self.host(backend)
            engines = (self._of_framework(backend, host), host)
            self._made[backend.name] = [each for each in engines if each is not None]
        return self._made[backend.name]

    def for_kinds(
        self, backend: Backend, kinds: Sequence[Kind], device: Device
    ) -> list[GroupEngine]:
        """Those for tensors of these kinds, which are on ``device``, the preferred one first.

        For few bytes on the CPU that is the memory which the workers share: there a step of a small
        model takes 0.6 of its time by gloo, whose threads each worker waits for. Workers that need
        no more do not join it, which takes 2 MiB in each.
        """
        host = self.host(backend)
        memory = None if self._own.channel is None else self._own.channel.memory
        if device.kind != "cpu" or memory is None or host is None:
            return self.of(backend)
        is_quick = nbytes_of(backend, kinds) <= min(memory.slot_bytes, QUICK_BYTES)
        return [host] if is_quick else self.of(backend)

    def host(self, backend: Backend) -> GroupEngine | None:
        """The one that is there without joining; None between hosts of torchrun's and the like."""
        if backend.name not in self._host_engines:
            self._host_engines[backend.name] = self._of_host(backend)
        return self._host_engines[backend.name]

    def _of_host(self, backend: Backend) -> GroupEngine | None:
        own = self._own
        # Paddle's init_parallel_env does nothing for one, and has no group (3.3.1).
        if own.channel is None or (self.relay is not None and own.size == 1):
            return SingleWorkerEngine(backend)
        if self.relay is not None:
            if not isinstance(backend.group_engine, Unsupported) and backend.name != own.backend:
                raise BackendMismatchError(
                    f"this run exchanges tensors of {own.backend}, not of {backend.name}: "
                    f"unidev.run(…, backend={backend.name!r}).",
                    backend=backend.name,
                )
            if not self._host_engines:
                self._share_memory(self.relay)
        if own.channel.memory is not None:
            return HostEngine(backend, MemoryCarrier(own.channel.memory), own.rank)
        if self.relay is not None:
            return HostEngine(backend, MessageCarrier(self.relay), own.rank)
        return None

    def _of_framework(self, backend: Backend, host: GroupEngine | None) -> GroupEngine | None:
        """Joined, unless this worker is alone or the framework has none that is of use."""
        own, engine = self._own, backend.group_engine
        if isinstance(host, SingleWorkerEngine) or isinstance(engine, Unsupported):
            return None
        if self.relay is None:  # it was joined to find the others
            return engine
        collective = own.mark.operation
        own.mark.doing(JOINING)
        self.run(backend, engine.join, own.rank, own.rendezvous, self._device())
        own.mark.doing(collective)
        self._joined.append(engine)
        return engine if engine.carries else None

    def _share_memory(self, relay: Relay) -> None:
        """Share memory with workers that were started one by one, if all are on one host."""
        own = self._own
        assert isinstance(own.channel, Channel)
        if own.mark.count == own.size:  # they were started together, with what there is
            return
        self._shared = shared_by_all(relay.gathered, own.rank, own.size, math.inf)
        if self._shared is not None:
            own.channel.memory = self._shared.memory
            own.mark.show_at(self._shared.mark)

    def run(self, backend: Backend, work: Callable[..., Any], *arguments: Any) -> Any:
        """Call an engine, whose errors are those of a collective."""
        self._own.check_process()  # also of a fork in the middle of a step
        try:
            return work(*arguments)
        except UnidevError:
            raise
        except backend.framework_errors as error:
            raise CollectiveError(
                f"{OPERATIONS[self._own.mark.operation]} of worker {self._own.rank} failed: "
                f"{type(error).__name__}: {error}"
            ) from error

    def start_all_reduce(
        self, backend: Backend, engine: GroupEngine, flat: Tensor, op: str
    ) -> Callable[[], Tensor]:
        """As the function of that name, with the errors of a collective."""
        finish = self.run(backend, start_all_reduce, engine, flat, op)
        return lambda: self.run(backend, finish)

    def abort(self, reason: str) -> None:
        """Let the others' calls raise that wait for this worker; does not wait for them itself."""
        while self._joined:
            engine = self._joined.pop()
            self._aborting.append(Thread(target=engine.abort, args=(reason,), daemon=True))
            self._aborting[-1].start()

    def _interrupt(self, reason: str) -> None:
        """Let this worker's own call raise, if its engine can do that."""
        if all(engine.abort_interrupts for engine in self._joined):
            self.abort(reason)

    def leave(self) -> None:
        """Close what was joined."""
        for thread in self._aborting:  # an engine's own threads are not to meet the end of Python
            thread.join(5.0)
        while self._joined:
            self._joined.pop().leave()


def start_all_reduce(engine: GroupEngine, flat: Tensor, op: str) -> Callable[[], Tensor]:
    """Begin the sum, minimum or maximum of all workers' ``flat``, which may be written to.

    What the engine lists in ``gathered`` is combined here, in the order of ranks, and is done.
    """
    backend = engine.backend
    if portable_name(flat.dtype, backend) not in engine.gathered.get(op, ()):
        return engine.start_all_reduce(flat, op)
    total, *others = engine.all_gather(flat)
    for other in others:
        total = backend.collectives.combine(total, other, op)
    return lambda: total
