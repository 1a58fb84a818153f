"""The floor: what the smallest operation costs, however little it computes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from unidev.bench.results import FLOOR
from unidev.bench.tasks import Task
from unidev.tensors.creating import to_numpy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from unidev.bench.tasks import Host
    from unidev.contract.device import Device

WAITED, QUEUED, READ = (
    "x + y of one number, waited for",
    "x + y of one number, 100 queued",
    "x + y of one number, read into Python",
)
QUEUED_COUNT = 100


def tasks(host: Host) -> Iterator[Task]:
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
