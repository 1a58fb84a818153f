"""Frequent forum questions, as functions: a tiny net, a Jacobian, matrices moved back and forth.

``unidev bench`` times them; ``examples/why_is_my_gpu_slow.py`` passes them to ``fastest_device``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unidev import nn
from unidev.bench.results import FORUM
from unidev.bench.tasks import Operation, Task, journey_task, matrix_task, product
from unidev.models.gradients import sgd, value_and_grad
from unidev.models.placing import place
from unidev.nn import functional
from unidev.tensors.creating import array, ones, rand
from unidev.tensors.kinds import is_model
from unidev.tensors.transfer import as_in_device

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from unidev.bench.tasks import Host
    from unidev.contract.device import Device

BATCHES = (100, 1000)
FEATURES, HIDDEN, JACOBIAN_ROWS = 10, 50, 10
MATRIX_ROWS = 200


class Question(NamedTuple):
    """A computation that, according to forum questions, is slow on a GPU."""

    what: str
    compute: Callable[..., Any]
    arguments: Callable[[], tuple[Any, ...]]
    """Makes the arguments of ``compute``: tensors, lists of them, models."""
    why: str
    """Why it is slow."""
    advice: str


def train_tiny_net(net: Any, x: Any, y: Any) -> None:
    """One step of training: a dozen small operations."""
    _, gradients = value_and_grad(_loss)(net, x, y)
    sgd(net, gradients, lr=0.01)


def _loss(net: Any, x: Any, y: Any) -> Any:
    return functional.mean_squared_error(net(x), y)


def _tiny_net() -> tuple[Any, ...]:
    net = nn.sequential(nn.dense(10, 10), nn.tanh(), nn.dense(10, 1))
    return net, rand((10, 10)), rand((10, 1))


def jacobian(x: Any, inner: Any, outer: Any, column: Any, rows: list[Any]) -> list[Any]:
    """Row by row, each with a backward pass through the entire batch, like PyTorch's ``jacobian``.

    https://docs.pytorch.org/docs/stable/generated/torch.autograd.functional.jacobian.html
    """
    by_x = value_and_grad(_output)
    return [by_x(x, inner, outer, column, row)[1] for row in rows]


def _output(x: Any, inner: Any, outer: Any, column: Any, row: Any) -> Any:
    hidden = functional.tanh(functional.linear(x, inner))
    return row @ (functional.linear(hidden, outer) @ column)


def _jacobian_at(batch: int) -> Question:
    def arguments() -> tuple[Any, ...]:
        rows = np.eye(JACOBIAN_ROWS, batch, dtype="float32")[:, None]
        x, inner, outer = map(rand, ((batch, FEATURES), (HIDDEN, FEATURES), (FEATURES, HIDDEN)))
        return x, inner, outer, ones((FEATURES, 1)), [array(row) for row in rows]

    return Question(
        f"{JACOBIAN_ROWS} rows of a net's Jacobian at a batch of {batch:,}",
        jacobian,
        arguments,
        "many small steps, each with a fixed cost",
        "A larger batch makes the steps larger; computing all rows at once (vectorize=True in "
        "PyTorch, vmap) makes them fewer.",
    )


TINY = Question(
    "a tiny net, 10 to 10 to 1, takes a step at a batch of 10",
    train_tiny_net,
    _tiny_net,
    "too little work for the fixed cost of its operations",
    "Every operation costs some microseconds, however small it is. Use larger batches, or stay on "
    "the CPU.",
)
MATRICES = Question(
    f"a product of {MATRIX_ROWS} by {MATRIX_ROWS}",
    product,
    lambda: (rand((MATRIX_ROWS, MATRIX_ROWS)), rand((MATRIX_ROWS, MATRIX_ROWS))),
    "the transfers cost more than the GPU saves",
    "Keep the matrices on the GPU, compute everything there, and move only the final result back.",
)
WITH_GRADIENTS = (TINY, *map(_jacobian_at, BATCHES))
QUESTIONS = (*WITH_GRADIENTS, MATRICES)


def tasks(host: Host) -> Iterator[Task]:
    """All questions on each device; the matrices also with their transfers."""
    operation = Operation(FORUM, MATRICES.what, product)
    for device in host.devices:
        for question in WITH_GRADIENTS:
            yield _task(host, question, device)
        yield matrix_task(host, operation, device, MATRIX_ROWS)
        if device.kind == "gpu":
            yield journey_task(host, operation, device, MATRIX_ROWS)


def _task(host: Host, question: Question, device: Device) -> Task:
    def prepare() -> Callable[[], object]:
        arguments = [
            (place if is_model(x) else as_in_device)(x, device) for x in question.arguments()
        ]
        host.backend.synchronize(device)
        return host.waited(device, lambda: question.compute(*arguments))

    return Task(FORUM, question.what, device, prepare)
