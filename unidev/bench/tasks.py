"""``Task``: one thing to measure; ``Host``: makes tensors and waits, for all subjects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unidev.bench.results import HERE
from unidev.tensors.creating import full
from unidev.tensors.transfer import copy_to

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev.contract.backend import Backend
    from unidev.contract.device import Device

    Tensor = Any


@dataclass(frozen=True)
class Task:
    """One thing to measure; fields have the same meaning as in ``Result``."""

    subject: str
    what: str
    scope: Device
    prepare: Callable[[], Callable[[], object]]
    """Prepares the data and returns the call to time, which waits until its work is done.

    If it raises a ``UnidevError``, that is the reason for a missing timing. Both run inside
    ``with scope:``.
    """
    variant: str = HERE
    size: int | None = None
    route: str | None = None
    """The devices, where it is not the scope's alone."""

    @property
    def device(self) -> str:
        """The device or the route."""
        return self.route or str(self.scope)


class Host:
    """The backend's real devices, and the tensors to measure with."""

    def __init__(self, backend: Backend, devices: list[Device]) -> None:
        self.backend = backend
        self.cpu = backend.cpu
        self.devices = devices

    @property
    def gpus(self) -> list[Device]:
        """The real ones."""
        return [each for each in self.devices if each.kind == "gpu"]

    def make(self, shape: tuple[int, ...], device: Device, value: float = 0.5) -> Tensor:
        """A tensor whose memory has been written to: reading untouched pages would cost nothing."""
        x = full(shape, value, dtype="float32", device=device)
        self.backend.synchronize(device)
        return x

    def waited(self, device: Device, compute: Callable[[], object]) -> Callable[[], object]:
        """A function that calls ``compute`` and waits for ``device``."""
        synchronize = self.backend.synchronize

        def call() -> None:
            kept = compute()  # kept alive until it has been computed
            synchronize(device)
            del kept

        return call

    def journey(
        self, device: Device, compute: Callable[..., Tensor], *xs: Tensor
    ) -> Callable[[], object]:
        """A function that moves ``xs`` from the host to ``device``, computes, and moves it back."""

        def call() -> Tensor:
            return copy_to(compute(*(copy_to(x, device) for x in xs)), self.cpu)

        return self.waited(self.cpu, call)
