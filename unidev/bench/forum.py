"""What forums ask: a tiny net, a Jacobian at two batches, and matrices that go back and forth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unidev import nn
from unidev.bench.matrices import Operation, journey_task, matrix_task, product
from unidev.bench.results import FORUM
from unidev.bench.tasks import Task
from unidev.models.gradients import sgd, value_and_grad
from unidev.models.placing import place
from unidev.nn import functional
from unidev.tensors.creating import array

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from unidev.bench.tasks import Host
    from unidev.contract.device import Device

TINY = "a tiny net, 10 to 10 to 1, takes a step at a batch of 10"
MATRIX_ROWS = 200
MATRICES = f"a product of {MATRIX_ROWS} by {MATRIX_ROWS}"

BATCHES = (100, 1000)
FEATURES, HIDDEN, JACOBIAN_ROWS = 10, 50, 10


def jacobian_at(batch: int) -> str:
    """What it is called."""
    return f"{JACOBIAN_ROWS} rows of a net's Jacobian at a batch of {batch:,}"


def tasks(host: Host) -> Iterator[Task]:
    """The three questions, on each device."""
    operation = Operation(FORUM, MATRICES, product)
    for device in host.devices:
        yield _task(TINY, device, lambda device=device: _tiny_net(host, device))  # type: ignore[misc]
        for batch in BATCHES:
            yield _task(
                jacobian_at(batch),
                device,
                lambda device=device, batch=batch: _jacobian(host, device, batch),  # type: ignore[misc]
            )
        yield matrix_task(host, operation, device, MATRIX_ROWS)
        if device.kind == "gpu":
            yield journey_task(host, operation, device, MATRIX_ROWS)


def _task(what: str, device: Device, prepare: Callable[[], Callable[[], object]]) -> Task:
    return Task(subject=FORUM, what=what, device=str(device), scope=device, prepare=prepare)


def _tiny_net(host: Host, device: Device) -> Callable[[], object]:
    net = place(nn.sequential(nn.dense(10, 10), nn.tanh(), nn.dense(10, 1)), device)
    x, y = host.make((10, 10), device), host.make((10, 1), device)
    step = value_and_grad(lambda net: functional.mean_squared_error(net(x), y))

    def train() -> None:
        _, gradients = step(net)
        sgd(net, gradients, lr=0.01)

    return host.waited(device, train)


def _jacobian(host: Host, device: Device, batch: int) -> Callable[[], object]:
    """Row by row, each a way back through the whole batch, as PyTorch's ``jacobian`` does it.

    https://docs.pytorch.org/docs/stable/generated/torch.autograd.functional.jacobian.html
    """
    inner = host.make((HIDDEN, FEATURES), device, 0.01)
    outer = host.make((FEATURES, HIDDEN), device, 0.01)
    x, column = host.make((batch, FEATURES), device), host.make((FEATURES, 1), device)
    rows = [_one_hot(batch, index, device) for index in range(JACOBIAN_ROWS)]

    def outputs(x: Any) -> Any:
        return functional.linear(functional.tanh(functional.linear(x, inner)), outer)

    by_row = value_and_grad(lambda x, row: row @ (outputs(x) @ column))

    def call() -> list[Any]:
        return [by_row(x, row) for row in rows]

    return host.waited(device, call)


def _one_hot(count: int, index: int, device: Device) -> Any:
    import numpy as np

    values = np.zeros((1, count), "float32")
    values[0, index] = 1
    return array(values, device=device)
