"""``Task``: one thing to measure; ``Host``: makes tensors and waits, for all subjects."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unidev.bench.results import HERE
from unidev.tensors.creating import array, full
from unidev.tensors.transfer import copy_to

if TYPE_CHECKING:
    from collections.abc import Callable

    from unidev.contract.backend import Backend
    from unidev.contract.device import Device
    from unidev.contract.layers import Array

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
    charged_to: Device | None = None
    """The device whose budget it uses, where that is not the scope's."""

    @property
    def device(self) -> str:
        """The device or the route."""
        return self.route or str(self.scope)

    @property
    def payer(self) -> Device:
        """The device whose budget it uses."""
        return self.charged_to or self.scope


def numbers(shape: tuple[int, ...], draw: int) -> Array:
    """Float32 numbers from -1 to 1: a random block, repeated; each draw begins elsewhere in it."""
    import numpy as np

    return np.resize(np.roll(_block(), draw * 7919), shape)


@functools.cache
def _block() -> Array:
    import numpy as np

    # Not a power of two, so that no two rows of a matrix are the same.
    return np.random.default_rng(2026).uniform(-1, 1, 1_000_003).astype("float32")


class Host:
    """The backend's real devices, and the tensors to measure with."""

    def __init__(self, backend: Backend, devices: list[Device]) -> None:
        self.backend = backend
        self.cpu = backend.cpu
        self.devices = devices
        self._made = 0

    @property
    def gpus(self) -> list[Device]:
        """The real ones."""
        return [each for each in self.devices if each.kind == "gpu"]

    def make(self, shape: tuple[int, ...], device: Device) -> Tensor:
        """A tensor of random numbers from -1 to 1.

        Constant data would flatter a GPU: with fewer bits to switch it needs less power, and
        computes at higher clocks.
        """
        self._made += 1
        x = array(numbers(shape, self._made), device=device)
        self.backend.synchronize(device)
        return x

    def filled(self, shape: tuple[int, ...], value: float, device: Device) -> Tensor:
        """A tensor of one number, where the task is about that number."""
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
