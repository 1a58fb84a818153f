"""One model at work on several devices of a process, each with a share of the batch."""

from __future__ import annotations

import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from unidev.backends.loading import backend_of_type
from unidev.errors import InvalidDataError, NotAModelError, UnsupportedOperation
from unidev.models.placing import backend_of_model, place_on
from unidev.parallel.devices.arguments import checked_devices
from unidev.parallel.devices.batches import gather, split_batch
from unidev.parallel.devices.packing import reduce_to, unrecorded
from unidev.parallel.devices.running_statistics import Statistics
from unidev.parallel.devices.twins import OPERATION, Twins
from unidev.system.arguments import choice, non_negative_integer
from unidev.system.wording import kind_of, shown
from unidev.tensors.checks import device_of
from unidev.tensors.containers import tensors_of
from unidev.tensors.kinds import CONTAINER, TENSOR, Handle, classify
from unidev.tensors.transfer import as_in_device

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from unidev.device import Device
    from unidev.tensors.devices import DeviceLike

    Tensor = Any

_wrapped: weakref.WeakValueDictionary[int, ReplicatedModel] = weakref.WeakValueDictionary()
"""The newest handle of each model that is in one, by the model's id.

An older one may be alive long after a program has deleted it, by an error that is kept
(``sys.last_exc`` in a notebook) or a cycle: it is refused at work, and does not refuse the new one.
"""


class ReplicatedModel(Handle):
    """A model on ``devices[0]``, and replicas of it on the others, for shares of each batch.

    ``unidev.DataParallel``, which has the documentation, adds other processes.
    """

    def __init__(
        self, model: Any, devices: Sequence[DeviceLike], *, reduction: str = "mean"
    ) -> None:
        self._is_at_work = False
        backend = backend_of_model(model)
        if (older := _wrapped.get(id(model))) is not None and older._is_at_work:
            raise NotAModelError(
                f"this {kind_of(model)} is in a DataParallel that is at work: {older!r}. Make "
                "another one after that."
            )
        choice("reduction", reduction, ("mean", "sum"))
        backend.models.parameters(model)  # raises if it is not built
        self.model = model
        self.backend = backend
        self.reduction = reduction
        self.devices = _different(checked_devices(devices, backend))
        home = device_of(model)
        place_on(self.devices[0], model, None, backend, OPERATION)
        try:
            self._twins = Twins(model, backend, self.devices)
        except BaseException:
            place_on(home, model, None, backend, OPERATION)
            raise
        _wrapped[id(model)] = self

    def __repr__(self) -> str:
        return f"DataParallel({type(self.model).__name__}, [{', '.join(map(str, self.devices))}])"

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        """The outputs for all rows of ``inputs``, gathered on the first device, without gradients.

        Splits the tensors in ``inputs`` by rows, and gives ``options`` whole to each device.
        """

        def outputs(device: Device, model: Any, *share: Any, **options: Any) -> Any:
            with device, unrecorded(self.backend):
                return model(*share, **options)

        return self._on_each(outputs, self._gathered, inputs, options)

    @contextmanager
    def replica(self, index: int) -> Iterator[Any]:
        """``with net.replica(1) as model:`` shows the model as it is on ``devices[1]``.

        It is the same object, with the same bits in other memory. What the block changes in a
        replica other than 0 is lost.
        """
        number = non_negative_integer(index, len(self.devices) - 1)
        if number is None:
            raise InvalidDataError(
                f"the replicas of {self!r} are 0 to {len(self.devices) - 1}, not {shown(index)}."
            )
        with self._alone():
            values = self._twins.current(number + 1)[number]
            with self._twins.at(number, values) as model:
                yield model

    def value_and_grad(
        self, evaluate: Callable[..., tuple[Any, Any]], arguments: Any, options: Any
    ) -> tuple[Any, Any]:
        """``evaluate(model, …)`` on each device; losses and gradients reduced to the first."""

        def work(_: Device, model: Any, *share: Any, **options: Any) -> tuple[Any, Any]:
            return evaluate(model, share, options)

        found: tuple[Any, Any] = self._on_each(work, self._reduced, arguments, options)
        return found

    def _on_each(
        self,
        work: Callable[..., Any],
        joined: Callable[[list[Any], list[int]], Any],
        arguments: tuple[Any, ...],
        options: dict[str, Any],
    ) -> Any:
        """The results of ``work`` on each device, joined; restores the buffers if it raises."""
        with self._alone():
            first = self.devices[0]
            used = self.devices
            if len(used) > 1:
                used = used[: max(1, rows_of(arguments))]
            if len(used) == 1:
                return work(
                    first, self.model, *as_in_device(arguments, first), **_moved(options, first)
                )
            shares = split_batch(arguments, used)
            counts = [rows_of(share) for share in shares]
            values = self._twins.current(len(used))
            statistics, results = Statistics(self.model, self.backend), []
            with self._twins.restoring():
                for index, (device, share) in enumerate(zip(used, shares, strict=True)):
                    with self._twins.at(index, values[index]) as model:
                        values[index] = ()  # their memory is free for the work
                        with statistics.changed():
                            results.append(work(device, model, *share, **_moved(options, device)))
                statistics.average(counts, first, OPERATION)
                return joined(results, counts)

    def _check_dense(self, gradients: dict[str, Any]) -> None:
        try:
            self.backend.collectives.check_dense([*gradients.values()], True)
        except UnsupportedOperation as error:
            raise UnsupportedOperation(
                "adding sparse gradients", "make the layer, an embedding, say, with sparse=False"
            ) from error

    def _reduced(self, results: list[Any], counts: list[int]) -> tuple[Any, Any]:
        self._check_dense(results[0][1])
        lists = [[loss, *gradients.values()] for loss, gradients in results]
        weights = counts if self.reduction == "mean" else None
        loss, *gradients = reduce_to(
            self.backend, lists, self.devices[0], self.reduction, weights, operation=OPERATION
        )
        return loss, dict(zip(results[0][1], gradients, strict=True))

    def _gathered(self, results: list[Any], _counts: list[int]) -> Any:
        with unrecorded(self.backend):
            return gather(results, self.devices[0])

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if self._is_at_work:
            raise UnsupportedOperation(
                f"using a {self!r} that is at work",
                "the loss receives the model itself, as `replica` gives it: call that, from one "
                "thread",
            )
        if _wrapped.get(id(self.model)) is not self:
            raise UnsupportedOperation(
                f"using a {self!r} whose model is in a newer one", "use that one"
            )
        self._is_at_work = True
        try:
            yield
        finally:
            self._is_at_work = False


def rows_of(arguments: tuple[Any, ...]) -> int:
    """The rows of the first tensor in ``arguments``."""
    if arguments and backend_of_type(type(arguments[0])) is not None:
        shape = arguments[0].shape
    else:
        found = tensors_of(arguments)
        if not found:
            raise InvalidDataError(
                "the positional arguments hold no tensor whose rows could be split over the "
                "devices."
            )
        shape = found[0][0].shape
    if len(shape) == 0:
        raise InvalidDataError(
            "the first tensor in the positional arguments has no dimension, so no rows to split: "
            "pass it by keyword, which gives it whole to each device."
        )
    return int(shape[0])


def _different(devices: list[Device]) -> tuple[Device, ...]:
    twice = next((device for device in devices if devices.count(device) > 1), None)
    if twice is not None:
        raise InvalidDataError(
            f"devices lists {twice} twice: each replica needs a device of its own."
        )
    return tuple(devices)


def _moved(options: dict[str, Any], device: Device) -> dict[str, Any]:
    kinds = (TENSOR, CONTAINER)
    return {
        name: as_in_device(x, device) if classify(x)[0] in kinds else x
        for name, x in options.items()
    }
