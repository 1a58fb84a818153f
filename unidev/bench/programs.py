"""The timed parts of the programs of ``docs/questions.md``, for ``unidev bench --only``."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from unidev.bench import images, jacobian, ode
from unidev.bench.results import IMAGES, JACOBIAN, ODE
from unidev.bench.tasks import Task
from unidev.models.gradients import value_and_grad
from unidev.tensors.creating import array

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from unidev.bench.tasks import Host
    from unidev.contract.device import Device

ROWS = 10
"""The rows of a Jacobian that are timed one by one."""


class Part(NamedTuple):
    """What is timed of a program, and what makes the call to time, inside ``with device:``."""

    subject: str
    what: str
    make: Callable[[], Callable[[], object]]


def _gradient_of_ode(solver: str) -> Callable[[], object]:
    net, (start, data) = ode.make_net(), ode.start_and_data()
    return partial(value_and_grad(ode.loss_of), net, start, data, solver)


def _rows(batch: int) -> Callable[[], object]:
    net = jacobian.make(batch)
    return lambda: list(islice(jacobian.rows(net), ROWS))


def _summed(batch: int) -> Callable[[], object]:
    return partial(jacobian.summed, jacobian.make(batch))


def _forwards(batch: int) -> Callable[[], object]:
    return partial(jacobian.forwards, jacobian.make(batch))


def _step() -> Callable[[], object]:
    step = images.stepper(images.make_net())
    pictures, labels = images.draw(images.BATCH, seed=0)
    return partial(step, array(pictures), array(labels))


def parts() -> Iterator[Part]:
    """The parts of all programs, in order."""
    for solver in ode.SOLVERS:
        what = f"a gradient of a neural ODE, 3 to 100 to 3, by {solver}"
        yield Part(ODE, what, partial(_gradient_of_ode, solver))
    for batch in jacobian.BATCHES:
        named = f"of a Jacobian, 1 to 20 to 20 to 400, at a batch of {batch:,}"
        yield Part(JACOBIAN, f"{ROWS} rows {named}", partial(_rows, batch))
        yield Part(JACOBIAN, f"a row for all samples, 400, {named}", partial(_summed, batch))
        yield Part(JACOBIAN, f"forward mode {named}", partial(_forwards, batch))
    yield Part(IMAGES, f"a step of PyTorch's MNIST example, a batch of {images.BATCH}", _step)


def tasks(host: Host, subjects: Collection[str]) -> Iterator[Task]:
    """The parts of these programs on each device."""
    for part in parts():
        if part.subject in subjects:
            for device in host.devices:
                yield Task(part.subject, part.what, device, partial(_prepared, host, device, part))


def _prepared(host: Host, device: Device, part: Part) -> Callable[[], object]:
    call = host.waited(device, part.make())
    host.backend.synchronize(device)
    return call
