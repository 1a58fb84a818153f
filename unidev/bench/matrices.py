"""Products and sums of square matrices, of 8 to 4,096 rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unidev.bench.results import HERE, JOURNEY, PRODUCT, SUM
from unidev.bench.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from unidev.bench.tasks import Host
    from unidev.device import Device

    Compute = Callable[[Any, Any], Any]

SIZES = tuple(2**power for power in range(3, 13))


def product(x: Any, y: Any) -> Any:
    """The framework's own product of matrices."""
    return x @ y


def total(x: Any, y: Any) -> Any:
    """The framework's own sum, element by element."""
    return x + y


def tasks(host: Host) -> Iterator[Task]:
    """Both, on each device, the small sizes first."""
    for size in SIZES:
        for subject, what, compute in ((PRODUCT, "x @ y", product), (SUM, "x + y", total)):
            for device in host.devices:
                yield matrix_task(host, subject, what, device, size, compute)
                if device.kind == "gpu":
                    yield journey_task(host, subject, what, device, size, compute)


def matrix_task(
    host: Host, subject: str, what: str, device: Device, size: int, compute: Compute
) -> Task:
    """Two matrices that are on ``device`` already."""

    def prepare() -> Callable[[], object]:
        x, y = host.make((size, size), device), host.make((size, size), device)
        return host.waited(device, lambda: compute(x, y))

    return Task(
        subject=subject, what=what, device=str(device), variant=HERE, size=size,
        scope=device, prepare=prepare,
    )  # fmt: skip


def journey_task(
    host: Host, subject: str, what: str, device: Device, size: int, compute: Compute
) -> Task:
    """Two matrices of the host, and the result brought back to it."""

    def prepare() -> Callable[[], object]:
        x, y = host.make((size, size), host.cpu), host.make((size, size), host.cpu)
        return host.journey(device, compute, x, y)

    return Task(
        subject=subject, what=what, device=str(device), variant=JOURNEY, size=size,
        scope=device, prepare=prepare,
    )  # fmt: skip
