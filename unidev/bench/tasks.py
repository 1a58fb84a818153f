"""``Task``: one thing to measure; ``Host``: makes tensors and waits. The tasks on each device."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from unidev.bench.results import BANDWIDTH, FLOOR, HERE, JOURNEY, PRODUCT, SUM
from unidev.tensors.creating import array, full, to_numpy
from unidev.tensors.transfer import copy_to

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from unidev.contract.backend import Backend
    from unidev.contract.layers import Array
    from unidev.device import Device

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


@cache
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


PAGEABLE, PINNED = "from pageable memory", "from pinned memory"
TRANSFER_SIZES = tuple(2**10 * 4**power for power in range(10))
"""1 KiB to 256 MiB."""


def transfer_tasks(host: Host) -> Iterator[Task]:
    """Each route, smallest sizes first."""
    for size in TRANSFER_SIZES:
        for source, target, variant in _routes(host):
            yield _transfer_task(host, source, target, variant, size)


def _routes(host: Host) -> Iterator[tuple[Device, Device, str]]:
    """The first GPU's in full; each other's to and from the host, and to and from the first.

    All pairs would be quadratic in the number of GPUs.
    """
    cpu = host.cpu
    yield cpu, cpu, PAGEABLE
    for number, gpu in enumerate(host.gpus):
        yield cpu, gpu, PAGEABLE
        yield gpu, cpu, PAGEABLE
        if number == 0:
            yield cpu, gpu, PINNED
            yield gpu, gpu, PAGEABLE
        else:
            yield host.gpus[0], gpu, PAGEABLE
            yield gpu, host.gpus[0], PAGEABLE


def _transfer_task(host: Host, source: Device, target: Device, variant: str, size: int) -> Task:
    def prepare() -> Callable[[], object]:
        x = host.make((size // 4,), source)
        if variant == PINNED:
            x = host.backend.pinned(x)
        return host.waited(target, lambda: copy_to(x, target))

    route = f"{source} to {target}"
    # Of the GPU, or of the one that is not the first; GPUs are in order.
    payer = max(source, target, key=lambda each: (each.kind == "gpu", each.index))
    return Task(BANDWIDTH, "copy_to", target, prepare, variant, size, route, payer)


WAITED, QUEUED, READ = (
    "x + y of one number, waited for",
    "x + y of one number, 100 queued",
    "x + y of one number, read into Python",
)
QUEUED_COUNT = 100


def floor_tasks(host: Host) -> Iterator[Task]:
    """Three tasks for each device."""
    for device in host.devices:
        for what, prepare in ((WAITED, _waited), (QUEUED, _queued), (READ, _read)):
            yield Task(FLOOR, what, device, partial(prepare, host, device))


def _waited(host: Host, device: Device) -> Callable[[], object]:
    x, y = host.make((1,), device), host.make((1,), device)
    return host.waited(device, lambda: x + y)


def _queued(host: Host, device: Device) -> Callable[[], object]:
    x, y = host.make((1,), device), host.make((1,), device)

    def compute() -> object:
        total = x
        for _ in range(QUEUED_COUNT):
            total = total + y
        return total

    return host.waited(device, compute)


def _read(host: Host, device: Device) -> Callable[[], object]:
    x, y = host.make((1,), device), host.make((1,), device)
    return lambda: float(to_numpy(x + y)[0])


MATRIX_SIZES = tuple(2**power for power in range(3, 13))
OPERATIONS = ((PRODUCT, "x @ y", operator.matmul), (SUM, "x + y", operator.add))


def matrix_tasks(host: Host) -> Iterator[Task]:
    """Both operations on each device, smallest sizes first."""
    for size in MATRIX_SIZES:
        for subject, what, compute in OPERATIONS:
            for device in host.devices:
                for variant in (HERE, JOURNEY) if device.kind == "gpu" else (HERE,):
                    prepare = partial(_matrices, host, compute, device, size, variant)
                    yield Task(subject, what, device, prepare, variant, size)


def _matrices(
    host: Host, compute: Callable[[Any, Any], Any], device: Device, size: int, variant: str
) -> Callable[[], object]:
    at = device if variant == HERE else host.cpu
    x, y = host.make((size, size), at), host.make((size, size), at)
    if variant == HERE:
        return host.waited(device, lambda: compute(x, y))
    return host.waited(
        host.cpu, lambda: copy_to(compute(copy_to(x, device), copy_to(y, device)), host.cpu)
    )
