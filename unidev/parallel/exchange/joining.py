"""The group of processes that another program has started, such as torchrun."""

from __future__ import annotations

import atexit
import os
from typing import TYPE_CHECKING

from unidev.backends.selection import active_backend
from unidev.contract.backend import Unsupported
from unidev.contract.group_engine import Rendezvous
from unidev.errors import UnsupportedOperation
from unidev.parallel.exchange.membership import Membership
from unidev.parallel.exchange.rank_variables import advice, given_place
from unidev.parallel.messages.channel import EngineLink
from unidev.system.host.board import Mark
from unidev.system.printing import say
from unidev.system.progress import progress
from unidev.system.settings import TORCHRUN_TIMEOUT
from unidev.system.wording import count_text

if TYPE_CHECKING:
    from unidev.parallel.exchange.rank_variables import Place


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
    link = EngineLink(engine, device, place.rank)
    return Membership(
        rank=place.rank, size=place.size, gpus=gpus, first_gpu=place.local_rank,
        backend=backend.name, rendezvous=rendezvous, timeout_s=timeout_s, checkpoints=None,
        attempt=0, channel=link, mark=link.share(place.size, timeout_s),
    )  # fmt: skip
