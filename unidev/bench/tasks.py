"""``Task``: one thing to measure, and what all subjects make tensors and wait with."""

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


@dataclass(frozen=True, kw_only=True)
class Task:
    """One thing to measure; its words are those of ``Result``."""

    subject: str
    what: str
    device: str
    prepare: Callable[[], Callable[[], object]]
    """Makes what is needed, and gives the call to time, which waits until its work is done.

    What it raises of unidev's is why there is no timing. Both run inside ``with scope:``.
    """
    scope: Device
    variant: str = HERE
    size: int | None = None


class Host:
    """The backend's devices whose seconds mean something, and the tensors to measure on."""

    def __init__(self, backend: Backend, devices: list[Device]) -> None:
        self.backend = backend
        self.cpu = backend.cpu
        self.devices = devices

    @property
    def gpus(self) -> list[Device]:
        """The real ones."""
        return [each for each in self.devices if each.kind == "gpu"]

    def make(self, shape: tuple[int, ...], device: Device, value: float = 0.5) -> Tensor:
        """A tensor whose memory has been written to; untouched pages would cost nothing to read."""
        x = full(shape, value, dtype="float32", device=device)
        self.backend.synchronize(device)
        return x

    def waited(self, device: Device, compute: Callable[[], object]) -> Callable[[], object]:
        """A call of ``compute`` that waits for ``device``."""
        synchronize = self.backend.synchronize

        def call() -> None:
            kept = compute()  # dropped only once it is there
            synchronize(device)
            del kept

        return call

    def journey(
        self, device: Device, compute: Callable[..., Tensor], *xs: Tensor
    ) -> Callable[[], object]:
        """A call that brings ``xs`` from the host to ``device``, computes, and brings it back."""

        def call() -> Tensor:
            return copy_to(compute(*(copy_to(x, device) for x in xs)), self.cpu)

        return self.waited(self.cpu, call)
