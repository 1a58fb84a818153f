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
    """Every route between two devices, smallest sizes first."""
    for size in SIZES:
        for source, target in _routes(host):
            variants = [PAGEABLE]
            if source.kind == "cpu" and target.kind == "gpu":
                variants.append(PINNED)
            for variant in variants:
                yield _task(host, source, target, variant, size)


def _routes(host: Host) -> Iterator[tuple[Device, Device]]:
    yield host.cpu, host.cpu
    for gpu in host.gpus:
        yield host.cpu, gpu
        yield gpu, host.cpu
        for other in host.gpus:
            yield gpu, other


def _task(host: Host, source: Device, target: Device, variant: str, size: int) -> Task:
    def prepare() -> Callable[[], object]:
        x = host.make((size // 4,), source)
        if variant == PINNED:
            x = host.backend.pinned(x)
        return host.waited(target, lambda: copy_to(x, target))

    return Task(BANDWIDTH, "copy_to", target, prepare, variant, size, f"{source} to {target}")
