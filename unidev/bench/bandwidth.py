"""Transfer bandwidth between devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unidev.bench.results import BANDWIDTH
from unidev.bench.tasks import Task
from unidev.tensors.transfer import copy_to

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from unidev.bench.tasks import Host
    from unidev.contract.device import Device

PAGEABLE, PINNED = "from pageable memory", "from pinned memory"
SIZES = tuple(2**10 * 4**power for power in range(10))
"""1 KiB to 256 MiB."""


def tasks(host: Host) -> Iterator[Task]:
    """Each route, smallest sizes first."""
    for size in SIZES:
        for source, target, variant in _routes(host):
            yield _task(host, source, target, variant, size)


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


def _task(host: Host, source: Device, target: Device, variant: str, size: int) -> Task:
    def prepare() -> Callable[[], object]:
        x = host.make((size // 4,), source)
        if variant == PINNED:
            x = host.backend.pinned(x)
        return host.waited(target, lambda: copy_to(x, target))

    route = f"{source} to {target}"
    # Of the GPU, or of the one that is not the first; GPUs are in order.
    payer = max(source, target, key=lambda each: (each.kind == "gpu", each.index))
    return Task(BANDWIDTH, "copy_to", target, prepare, variant, size, route, payer)
