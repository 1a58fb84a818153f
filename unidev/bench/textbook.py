"""The textbook's exercises on GPUs: the cost of logging, and the gain from two devices at once.

"Dive into Deep Learning", section "GPUs": https://d2l.ai/chapter_builders-guide/use-gpu.html
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from unidev.bench.results import TEXTBOOK
from unidev.bench.tasks import Task
from unidev.errors import UnsupportedOperation
from unidev.tensors.creating import to_numpy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from unidev.bench.tasks import Host
    from unidev.device import Device

    Tensor = Any

PRODUCTS, ROWS = 1000, 100
LOGGED = f"{PRODUCTS:,} products of {ROWS} by {ROWS}, each norm logged"
KEPT = f"{PRODUCTS:,} products of {ROWS} by {ROWS}, the norms kept on the device"

TWO_PRODUCTS, TWO_ROWS = 10, 1024
AT_ONCE = f"{TWO_PRODUCTS} products of {TWO_ROWS:,} on each of two devices, at once"
ONE_BY_ONE = f"{TWO_PRODUCTS} products of {TWO_ROWS:,} on each of two devices, one after the other"


def tasks(host: Host) -> Iterator[Task]:
    """Logging on each device, and one pair of devices."""
    for device in host.devices:
        for what, prepare in ((LOGGED, _logged), (KEPT, _kept)):
            yield Task(TEXTBOOK, what, device, partial(prepare, host, device))
    both = " and ".join(map(str, _two(host)))
    for what, is_at_once in ((AT_ONCE, True), (ONE_BY_ONE, False)):
        yield Task(TEXTBOOK, what, host.cpu, partial(_on_two, host, is_at_once), route=both)


def _norm_of(host: Host, device: Device) -> Callable[[Tensor], Tensor]:
    """The Frobenius norm, of shape (1, 1), using operators that every framework has."""
    row, column = host.filled((1, ROWS), 1.0, device), host.filled((ROWS, 1), 1.0, device)
    return lambda x: (row @ (x * x) @ column) ** 0.5


def _logged(host: Host, device: Device) -> Callable[[], object]:
    x, y = host.make((ROWS, ROWS), device), host.make((ROWS, ROWS), device)
    norm = _norm_of(host, device)

    def call() -> list[float]:
        return [float(to_numpy(norm(x @ y))[0, 0]) for _ in range(PRODUCTS)]

    return call


def _kept(host: Host, device: Device) -> Callable[[], object]:
    x, y = host.make((ROWS, ROWS), device), host.make((ROWS, ROWS), device)
    norm, none = _norm_of(host, device), host.filled((1, 1), 0.0, device)

    def call() -> float:
        total = none
        for _ in range(PRODUCTS):
            total = total + norm(x @ y)
        return float(to_numpy(total)[0, 0])

    return call


def _two(host: Host) -> list[Device]:
    """Two GPUs; with one GPU, the GPU (whose work is queued first) and the CPU."""
    return [*host.gpus, host.cpu][:2]


def _on_two(host: Host, is_at_once: bool) -> Callable[[], object]:
    devices = _two(host)
    if len(devices) < 2:
        raise UnsupportedOperation("two devices at once", f"{devices[0]} is the only real device")
    shape = (TWO_ROWS, TWO_ROWS)
    pairs = [(each, host.make(shape, each), host.make(shape, each)) for each in devices]

    def call() -> None:
        kept = []
        for device, x, y in pairs:
            with device:
                kept.append([x @ y for _ in range(TWO_PRODUCTS)])
            if not is_at_once:
                host.backend.synchronize(device)
        for device, _, _ in pairs:
            host.backend.synchronize(device)

    return call
