"""Processes that another program has started: torchrun, or ``accelerate launch``."""

from __future__ import annotations

import atexit
import os
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.contract.backend import Unsupported
from unidev.contract.group_engine import Rendezvous
from unidev.distributed.exchange.membership import Membership
from unidev.distributed.messages.board import Mark
from unidev.distributed.messages.comparing import difference
from unidev.errors import InvalidDataError, UnsupportedOperation
from unidev.registry.selection import active_backend
from unidev.support.arguments import seconds_in
from unidev.support.progress import progress
from unidev.support.wording import count_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unidev.contract.backend import Backend
    from unidev.contract.device import Device
    from unidev.contract.group_engine import GroupEngine

_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
TIMEOUT = "UNIDEV_TORCHRUN_TIMEOUT"
_TIMEOUT_S = 600.0


def is_started_by_another() -> bool:
    """Whether this process is one of several, by the variables that torchrun sets.

    Raises:
        InvalidDataError: their number is none.
    """
    return all(os.environ.get(name) for name in _VARIABLES) and _number("WORLD_SIZE", 0) > 1


def joined() -> Membership:
    """This process's part in what another program has started; joins the others.

    Raises:
        InvalidDataError: a variable has no value that torchrun would give it.
        UnsupportedOperation: the framework's engine cannot, by these variables alone.
    """
    backend = active_backend()
    engine = backend.group_engine
    if isinstance(engine, Unsupported) or not engine.joins_by_environment:
        raise UnsupportedOperation(
            f"joining what torchrun has started, with {backend.name}",
            "its workers need more than torchrun's variables: start them by `unidev launch`",
        )
    size = _number("WORLD_SIZE", 1)
    rank = _number("RANK", 0, size - 1)
    port = _number("MASTER_PORT", 0, 65535)
    place = _number("LOCAL_RANK", 0, otherwise=0)
    here = _number("LOCAL_WORLD_SIZE", 1, otherwise=1)
    gpus = int(backend.device_count("gpu") >= here)
    device = backend.device("gpu", place) if gpus else backend.cpu
    timeout_s = seconds_in(TIMEOUT, _TIMEOUT_S)
    rendezvous = Rendezvous(
        (os.environ["MASTER_ADDR"],) * size, (port,) * size, (), None, timeout_s
    )
    with progress(
        f"waiting for the other {count_text(size - 1, 'worker')} that torchrun has started, by "
        f"WORLD_SIZE={size} at {rendezvous.hosts[0]}:{port}; without torchrun, unset "
        f"{', '.join(_VARIABLES)}"
    ):
        engine.join(rank, rendezvous, device)
    atexit.register(engine.leave)
    return Membership(
        rank=rank, size=size, place=place, gpus=gpus, backend=backend.name, rendezvous=rendezvous,
        timeout_s=timeout_s, checkpoints=None, attempt=0,
        channel=EngineLink(backend, engine, device, rank, size), mark=Mark.alone(),
    )  # fmt: skip


def _number(name: str, least: int, most: int | None = None, *, otherwise: int = -1) -> int:
    text = os.environ.get(name, "")
    number = int(text) if text.isascii() and text.isdigit() else -1 if text else otherwise
    if number < least or (most is not None and number > most):
        span = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise InvalidDataError(
            f"{name}={text} must be an integer {span}, as torchrun sets it. To run one process "
            f"alone, unset {', '.join(_VARIABLES)}."
        )
    return number


class EngineLink:
    """The counterpart of a run's ``Channel``, through the framework's engine."""

    def __init__(
        self, backend: Backend, engine: GroupEngine, device: Device, rank: int, size: int
    ) -> None:
        self.engine = engine
        self._backend = backend
        self._device = backend.cpu if engine.on_host else device
        self._rank = rank
        self._size = size

    def compare(self, number: int, description: tuple[str, Sequence[str]]) -> str | None:  # noqa: ARG002  all come in one order
        """How the workers differ, or None; blocks for all of them."""
        found = [pickle.loads(each) for each in self._gathered(pickle.dumps(description))]  # noqa: S301  our own group's
        return difference(dict(enumerate(found)))

    def shared(self, content: bytes) -> bytes:
        """The ``content`` of worker 0, on every worker."""
        return self._gathered(content if self._rank == 0 else b"")[0]

    def _gathered(self, content: bytes) -> list[bytes]:
        sizes = [int(found[0]) for found in self._all(np.array([len(content)], "int64"))]
        padded = np.zeros(max(1, *sizes), "uint8")
        padded[: len(content)] = np.frombuffer(content, "uint8")
        return [
            found[:size].tobytes() for found, size in zip(self._all(padded), sizes, strict=True)
        ]

    def _all(self, array: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
        backend = self._backend
        x = backend.from_numpy(array, backend.dtypes[array.dtype.name], self._device)
        return [backend.to_numpy(found) for found in self.engine.all_gather(x)]
