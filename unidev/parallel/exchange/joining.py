"""The group of processes that another program has started, such as torchrun."""

from __future__ import annotations

import atexit
import os
import pickle
import threading
from typing import TYPE_CHECKING

import numpy as np

from unidev.backends.selection import active_backend
from unidev.contract.backend import Unsupported
from unidev.contract.group_engine import Rendezvous
from unidev.errors import UnsupportedOperation
from unidev.parallel.exchange.membership import Membership
from unidev.parallel.exchange.rank_variables import advice, given_place
from unidev.parallel.messages.comparing import difference
from unidev.system.host.board import Mark
from unidev.system.printing import say
from unidev.system.progress import progress
from unidev.system.settings import TORCHRUN_TIMEOUT
from unidev.system.wording import count_text

if TYPE_CHECKING:
    from unidev.contract.group_engine import GroupEngine
    from unidev.device import Device
    from unidev.parallel.exchange.rank_variables import Place
    from unidev.parallel.messages.comparing import Description


def outside_a_run() -> Membership:
    """The part of a process that ``run`` has not started: joined to others, or alone."""
    place = given_place()
    if place is not None:
        return _joined(place)
    advised = advice()
    if advised is not None:
        say(advised)
    return Membership(
        rank=0, size=1, gpus=0, backend="", rendezvous=None, timeout_s=0.0,
        checkpoints=None, attempt=0, channel=None, mark=Mark.alone(),
    )  # fmt: skip


def _joined(place: Place) -> Membership:
    """Join what another program has started."""
    backend = active_backend()
    engine = backend.group_engine
    if isinstance(engine, Unsupported) or not engine.joins_by_environment:
        raise UnsupportedOperation(
            f"joining what {place.program} has started, with {backend.name}",
            f"its workers need more than {place.program} gives them: start them by "
            f"`unidev launch`; {place.way_out}",
        )
    gpus = int(backend.device_count("gpu") >= place.local_size)
    device = backend.device("gpu", place.local_rank) if gpus else backend.cpu
    timeout_s = TORCHRUN_TIMEOUT.value()
    rendezvous = Rendezvous(
        (place.host,) * place.size, (place.port,) * place.size, (), None, timeout_s
    )
    os.environ.update(place.variables())  # what the engine joins by, and the framework's own code
    with progress(
        f"waiting for the other {count_text(place.size - 1, 'worker')} that {place.program} has "
        f"started, by {place.host}:{place.port}; {place.way_out}"
    ):
        engine.join(place.rank, rendezvous, device)
    atexit.register(engine.leave)
    return Membership(
        rank=place.rank, size=place.size, gpus=gpus, first_gpu=place.local_rank,
        backend=backend.name, rendezvous=rendezvous, timeout_s=timeout_s, checkpoints=None,
        attempt=0, channel=EngineLink(engine, device, place.rank),
        mark=Mark.alone(),
    )  # fmt: skip


class EngineLink:
    """The counterpart of a run's ``Channel``, through the framework's engine."""

    def __init__(self, engine: GroupEngine, device: Device, rank: int) -> None:
        self.engine = engine
        self._device = engine.backend.cpu if engine.on_host else device
        self._rank = rank
        self._heard = ""

    def compare(self, number: int, description: Description) -> str | None:  # noqa: ARG002  all come in one order
        """How the workers differ, or None; blocks for all of them."""
        found = [pickle.loads(each) for each in self._gathered(pickle.dumps(description))]  # noqa: S301  our own group's
        return difference(dict(enumerate(found)))

    def shared(self, content: bytes) -> bytes:
        """The ``content`` of worker 0, on every worker."""
        return self._gathered(content if self._rank == 0 else b"")[0]

    def give_up(self, said: str, *, is_consequence: bool) -> None:  # noqa: ARG002  nobody watches
        """Abort the engine; the others read there why."""
        threading.Thread(target=self.engine.abort, args=(said,), daemon=True).start()

    def heard(self, wait_s: float = 0.0) -> str:
        """The reason of an engine that was aborted, once an exchange has failed."""
        if wait_s and not self._heard:
            self._heard = self.engine.aborted()
        return self._heard

    def _gathered(self, content: bytes) -> list[bytes]:
        engine, backend = self.engine, self.engine.backend
        sizes = [found[0] for found in engine.gather_numbers([len(content)], self._device)]
        padded = np.zeros(max(1, *sizes), "uint8")
        padded[: len(content)] = np.frombuffer(content, "uint8")
        x = backend.from_numpy(padded, backend.dtypes["uint8"], self._device)
        found = zip(engine.all_gather(x), sizes, strict=True)
        return [backend.to_numpy(each)[:size].tobytes() for each, size in found]
