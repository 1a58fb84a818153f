"""Products and sums of square matrices, of 8 to 4,096 rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from unidev.bench.results import HERE, JOURNEY, PRODUCT, SUM
from unidev.bench.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from unidev.bench.tasks import Host
    from unidev.contract.device import Device


class Operation(NamedTuple):
    """An operation on two matrices, and its name."""

    subject: str
    what: str
    compute: Callable[[Any, Any], Any]


SIZES = tuple(2**power for power in range(3, 13))


def product(x: Any, y: Any) -> Any:
    """The framework's own matrix product."""
    return x @ y


def total(x: Any, y: Any) -> Any:
    """The framework's own elementwise sum."""
    return x + y


PRODUCTS = Operation(PRODUCT, "x @ y", product)
SUMS = Operation(SUM, "x + y", total)


def tasks(host: Host) -> Iterator[Task]:
    """Both operations on each device, smallest sizes first."""
    for size in SIZES:
        for operation in (PRODUCTS, SUMS):
            for device in host.devices:
                yield matrix_task(host, operation, device, size)
                if device.kind == "gpu":
                    yield journey_task(host, operation, device, size)


def matrix_task(host: Host, operation: Operation, device: Device, size: int) -> Task:
    """An operation on two matrices that are on ``device`` already."""

    def prepare() -> Callable[[], object]:
        x, y = host.make((size, size), device), host.make((size, size), device)
        return host.waited(device, lambda: operation.compute(x, y))

    return Task(operation.subject, operation.what, device, prepare, HERE, size)


def journey_task(host: Host, operation: Operation, device: Device, size: int) -> Task:
    """An operation on two matrices from the host, with the result moved back to it."""

    def prepare() -> Callable[[], object]:
        x, y = host.make((size, size), host.cpu), host.make((size, size), host.cpu)
        return host.journey(device, operation.compute, x, y)

    return Task(operation.subject, operation.what, device, prepare, JOURNEY, size)
