"""``estimate_memory``: the peak memory of a training step, and the largest batch that fits."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from unidev.backends.boundary import errors_of
from unidev.contract.backend import Unsupported
from unidev.errors import InvalidDataError, UnsupportedOperation
from unidev.system.arguments import non_negative_integer
from unidev.system.gpu_memory import CARD_BYTES
from unidev.system.wording import bytes_in, bytes_text, kind_of, lacks_unit, shown
from unidev.tensors.containers import Opened
from unidev.tensors.kinds import CONTAINER, MODEL, TENSOR, classify, shape_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from unidev.contract.backend import Backend
    from unidev.contract.estimating import StepMemory
    from unidev.device import Device

_MOST_RUNS = 12
"""The peak is a convex function of the batch, so that few are needed: mostly four."""
_MOST_DOUBLINGS = 12
"""While a small batch makes no difference."""
_LEAST_ROWS = 2
"""Batch normalization refuses to train on one."""
LEFT_OUT = "Not included: libraries' workspaces, fragmentation, and what the driver itself takes."


class MemoryEstimate(NamedTuple):
    """The peak memory of a training step, in bytes; from ``estimate_memory``."""

    device: Device
    """Whose tensors were counted."""
    peak_bytes: int
    by_kind: Mapping[str, int]
    """The part of each kind in ``peak_bytes``: parameters, gradients, and so on."""
    batch: int | None
    """The rows of the batch; None if no tensor was among the step's arguments."""
    limit_bytes: int | None = None
    """``of``, in bytes."""
    largest_batch: int | None = None
    """The most rows whose peak is at most ``limit_bytes``: 0 if not even two rows fit."""
    is_extrapolated: bool = False
    """Whether ``largest_batch`` continues a line, since there was no room to try it."""

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _repr_html_(self) -> str:
        """For notebooks: the same, as a table."""
        from unidev.system.tables import Table, as_html

        lines = [*self._lines()]
        rows = [[kind, bytes_text(count)] for kind, count in self.by_kind.items()]
        return as_html([lines[0], Table((), rows), *lines[len(rows) + 1 :]])

    def _lines(self) -> Iterator[str]:
        rows = "" if self.batch is None else f", for a batch of {self.batch:,}"
        yield f"peak memory of a step on {self.device}{rows}: {bytes_text(self.peak_bytes)}"
        width = max(map(len, self.by_kind))
        for kind, count in self.by_kind.items():
            yield f"  {kind.ljust(width)}  {bytes_text(count)}"
        if self.limit_bytes is not None:
            limit = bytes_text(self.limit_bytes)
            yield (
                f"largest batch within {limit}: {self.largest_batch:,}"
                + (" (extrapolated)" if self.is_extrapolated else "")
                if self.largest_batch
                else f"not even a batch of 2 fits into {limit}"
            )
        yield LEFT_OUT


def estimate_memory(
    step: Callable[..., object],
    /,
    *arguments: Any,
    of: str | int | None = None,
    batch_axis: int = 0,
) -> MemoryEstimate:
    """Estimate the peak memory of ``step(*arguments)``, a training step, without changing anything.

    The step is run on stand-ins for ``arguments``. On PyTorch they have no memory, so the model may
    be larger than the machine: made ``with torch.device("meta")``, it is counted as if it were on
    the first GPU, or on the CPU if there is none. On PaddlePaddle they are copies, and the
    framework counts. It is run twice, since optimizers make their state in their first step.

    Args:
        step: a function that computes a loss, its gradients, and updates the model. All tensors,
            models and optimizers that it uses must be among ``arguments``. On PyTorch, numbers that
            it reads from tensors (``loss.item()``) are 1.
        arguments: a model, its optimizer, and the tensors of a batch, in any order, or containers
            of such tensors. The first one gives the batch's rows; others with as many belong to it.
        of: memory for which to find the largest batch: bytes, a string such as ``"24GiB"``, or a
            card: ``"H100"``, ``"A100"``, ``"L4"`` or ``"T4"``. The step is then run with other
            batches, until the largest is found; where that takes memory which is not free, with two
            others, from which it is extrapolated.
        batch_axis: the axis of the rows.

    Returns:
        An estimate with ``peak_bytes``, ``by_kind`` (parameters, gradients, optimizer state,
        activations, the rest) and ``largest_batch``. It counts tensors: **not** the workspaces of
        libraries such as cuDNN, fragmentation, or the driver's own memory. What an operation keeps
        may depend on the device, so estimate on the one that you mean: ``unidev simulate`` has it.

    Raises:
        UnsupportedOperation: the backend cannot estimate, or not this step; gives the reason.
        InvalidDataError: an argument is invalid, or the step uses a tensor that is not among its.

    An example::

        print(unidev.estimate_memory(step, net, optimizer, x, y, of="24GiB"))
    """
    if not callable(step):
        raise InvalidDataError(
            f"estimate_memory needs a function, not {shown(step)}: the step itself, and then what "
            "it is called with, as in estimate_memory(step, net, optimizer, x, y)."
        )
    limit = None if of is None else _bytes_of(of)
    axis = non_negative_integer(batch_axis)
    if axis is None:
        raise InvalidDataError(
            f"batch_axis must be a non-negative integer, not {shown(batch_axis)}."
        )
    backend, leaves, tensors = _found(arguments)
    estimator = backend.estimator
    if isinstance(estimator, Unsupported):
        raise UnsupportedOperation("estimate_memory", estimator.reason, estimator.link)
    with_axis = [x for x in tensors if len(shape_of(x)) > axis]
    batch = shape_of(with_axis[0])[axis] if with_axis else None
    rows = [x for x in with_axis if shape_of(x)[axis] == batch]
    runs = _Runs(partial(estimator.run, step, arguments, leaves), rows, axis, batch)
    if limit is not None and not batch:
        raise InvalidDataError(
            "there is no batch to enlarge: none of the step's arguments is a tensor with rows "
            f"along axis {axis}."
        )
    device, by_kind = runs.step_memory(batch)
    estimate = MemoryEstimate(device, sum(by_kind.values()), by_kind, batch, limit)
    if limit is None or not batch:
        return estimate
    with errors_of(backend, f"reading the memory of {device}"):
        has_room = estimator.takes_no_memory or 2 * limit < backend.memory(device).free_bytes
    if has_room:
        return estimate._replace(largest_batch=runs.largest(batch, limit))
    found = runs.extrapolated(batch, limit)
    return estimate._replace(largest_batch=found, is_extrapolated=True)


@dataclass
class _Runs:
    """The step with batches of different sizes."""

    run: Callable[[Mapping[int, tuple[int, ...]]], StepMemory]
    """The step with tensors of other shapes, by ``id``."""
    rows: Sequence[Any]
    """The tensors of the batch."""
    axis: int
    batch: int | None
    known: dict[int, int] = field(default_factory=dict)
    """The peak by the number of rows."""

    def step_memory(self, batch: int | None) -> StepMemory:
        """The peak of the step with so many rows."""
        shapes = {}
        if batch is not None and batch != self.batch:
            for x in self.rows:
                shape = [*shape_of(x)]
                shape[self.axis] = batch
                shapes[id(x)] = tuple(shape)
        found = self.run(shapes)
        if batch is not None:
            self.known[batch] = sum(found.by_kind.values())
        return found

    def largest(self, batch: int, limit: int) -> int:
        """The most rows whose peak is at most ``limit``, by running the step with others.

        What is in use at each moment is a straight line over the rows. So its maximum, the peak, is
        convex, and a line through two of its points shows where to look next.
        """
        low, high = batch, 2 * batch
        while self._peak(high) <= self._peak(low) and high < batch << _MOST_DOUBLINGS:
            high *= 4
        for _ in range(_MOST_RUNS):
            self._peak(max(_LEAST_ROWS, self._meets(low, high, limit)))
            fitting = [rows for rows, peak in self.known.items() if peak <= limit]
            above = [rows for rows, peak in self.known.items() if peak > limit]
            if fitting and above:
                low, high = max(fitting), min(above)
            elif fitting:
                low, high = sorted(self.known)[-2:]
            else:
                low, high = sorted(self.known)[:2]
            if high == low + 1 or (not fitting and low == _LEAST_ROWS):
                break
        return max((rows for rows, peak in self.known.items() if peak <= limit), default=0)

    def extrapolated(self, batch: int, limit: int) -> int:
        """The same from twice and three times the batch: too many if the peak is not a line."""
        low, high = 2 * batch, 3 * batch
        self._peak(low)
        self._peak(high)
        return max(0, self._meets(low, high, limit))

    def _peak(self, batch: int) -> int:
        if batch not in self.known:
            self.step_memory(batch)
        return self.known[batch]

    def _meets(self, low: int, high: int, limit: int) -> int:
        """The rows at which the line through two peaks meets the limit, rounded down."""
        start = self.known[low]
        slope = (self.known[high] - start) / (high - low)
        if slope <= 0:
            raise UnsupportedOperation(
                "finding the largest batch",
                f"the peak does not grow with the batch: it is the same for {low} and {high} rows",
            )
        return low + int((limit - start) // slope)


def _bytes_of(of: object) -> int:
    """The bytes of a size or of a card; anything else is an ``InvalidDataError``."""
    if isinstance(of, str):
        if of.strip().upper() in CARD_BYTES:
            return CARD_BYTES[of.strip().upper()]
        number = None if lacks_unit(of) else bytes_in(of)
    else:
        number = non_negative_integer(of)
    if not number:
        raise InvalidDataError(
            f'of must be a size such as "24GiB", a number of bytes, or a card '
            f"({', '.join(CARD_BYTES)}), not {shown(of)}."
        )
    return number


def _found(arguments: Sequence[Any]) -> tuple[Backend, list[Any], list[Any]]:
    """The backend of the arguments, their leaves, and among these their tensors, in order."""
    leaves = [leaf for argument in arguments for leaf in _leaves(argument)]
    backends: list[Backend] = []
    tensors: list[Any] = []
    for leaf in leaves:
        kind, backend = classify(leaf)
        if backend is not None and kind in {MODEL, TENSOR}:
            backends.append(backend)
            tensors += [leaf] if kind == TENSOR else []
    if not backends:
        kinds = ", ".join(map(kind_of, arguments)) or "nothing"
        raise InvalidDataError(
            "estimate_memory found no model and no tensor among the step's arguments: pass them "
            f"after the step, as in estimate_memory(step, net, optimizer, x, y), not {kinds}."
        )
    names = sorted({each.name for each in backends})
    if len(names) > 1:
        raise InvalidDataError(f"the step's arguments are of several backends: {', '.join(names)}.")
    return backends[0], leaves, tensors


def _leaves(argument: object) -> Sequence[Any]:
    if classify(argument)[0] != CONTAINER:
        return [argument]
    opened = Opened(argument, takes_models=True, takes_optimizers=True, own_to="looked into")
    return opened.leaves
