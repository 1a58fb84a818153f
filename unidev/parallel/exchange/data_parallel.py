"""``DataParallel`` over the workers of a run, and over the devices of each."""

from __future__ import annotations

import time
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from unidev.backends.observer import thread
from unidev.errors import InvalidDataError, UnsupportedOperation
from unidev.models.placing import backend_of_model
from unidev.parallel.devices.arguments import checked_devices
from unidev.parallel.devices.packing import write
from unidev.parallel.devices.replicated_model import ReplicatedModel, rows_of
from unidev.parallel.devices.running_statistics import Statistics
from unidev.parallel.devices.twins import State
from unidev.parallel.exchange import step_times
from unidev.parallel.exchange.accumulating import Accumulated
from unidev.parallel.exchange.exchanging import ANYWHERE
from unidev.parallel.exchange.group import group
from unidev.parallel.exchange.moments import BatchMoments
from unidev.parallel.exchange.overlap import Overlap, Step
from unidev.parallel.exchange.transport import check_narrow
from unidev.parallel.exchange.trees import Tree
from unidev.system.arguments import choice
from unidev.tensors.checks import device_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from unidev.tensors.devices import DeviceLike

_LOSS = "the loss"


class _Held(NamedTuple):
    """The steps since the last exchange."""

    steps: Accumulated
    statistics: Statistics


class DataParallel(ReplicatedModel):
    """A model at work on several devices, in several processes, or both.

    A handle, not a model: ``model`` stays the same object, and its optimizers go on training it.
    ``value_and_grad``, ``sgd``, ``parameters``, ``save_parameters``, ``load_parameters``,
    ``device_of``, ``nn.train_mode`` and ``nn.eval_mode`` take it for that model::

        net = unidev.DataParallel(net, unidev.try_all_gpus())
        loss, gradients = unidev.value_and_grad(loss_of)(net, X, y)
        unidev.sgd(net, gradients, lr=0.1)

    ``value_and_grad`` splits the tensors in positional arguments by rows, as ``split_batch`` does,
    and gives keyword arguments whole to each device. ``loss_of`` receives the model itself, which
    computes on one device after the other. Losses and gradients are reduced to the first device and
    look like those of the model. The replicas get all of the model's values before each use, packed
    into few transfers, so they never miss a change. Fewer rows than devices use
    fewer devices. With one device, nothing is copied.

    In a worker of ``unidev.run``, losses and gradients are then reduced over the workers, which all
    get the same bits; on PyTorch that begins while backward runs. Each worker gives rows of its
    own: ``unidev.group().split_batch(batch)``, or what a loader reads for its rank. The model
    begins with the values of worker 0, and stays the same on all as long as all change it in the
    same way. Calling it exchanges nothing.

    Batch normalisation normalises each share by itself, so results differ from those on one device;
    its running statistics become the mean over the shares, weighted by rows. With
    ``batch_norm="synchronized"`` it normalises by the rows of all workers, as one device would: in
    ``value_and_grad``, for each layer that trains, with two small exchanges. Other buffers
    are those of the first device of each worker. Dropout draws other numbers on each device as far
    as the framework's generators do. If anything raises, parameters are as they were, and on
    several devices so are buffers.

    Args:
        model: as for ``place``, built. It is placed on the first device.
        devices: different devices of the model's framework. None: this worker's own device,
            ``unidev.group().device``; in a process that is not a worker, where the model is.
        reduction: how the loss is made from those of the shares, with their gradients: "mean", for
            a mean over rows, weights them by rows; "sum" adds them.
        batch_norm: "local", or "synchronized" for one device in each worker. Then workers take the
            same number of steps in ``accumulate``, too.
        reduce_dtype: "float16" or "bfloat16": gradients and losses travel between workers in this
            dtype, in half of the bytes, and are added up in it; from the second step on. None: in
            their own, and float16 and bfloat16 are added up in float32.

    Attributes:
        model: the model itself.
        devices: a tuple of ``Device``.

    Use it from one thread at a time. A new one for the same model takes its place: the older one
    then raises ``UnsupportedOperation``.

    Raises:
        NotAModelError: ``model`` is not a model, or in a DataParallel that is at work.
        UnsupportedOperation: it is not built yet, or the framework cannot move it; with
            ``batch_norm="synchronized"``, there are several devices, or no layers of batch
            normalisation that can do this: compiled ones cannot; the engine between the workers
            cannot add up in ``reduce_dtype``.
        InvalidDataError: a device is listed twice; ``reduction`` or ``batch_norm`` is neither of
            the two; ``reduce_dtype`` is neither of its two; the models of two workers differ.
        DeviceError: there are no devices, or one is invalid or not available.
        BackendMismatchError: a device is another framework's.
        OutOfDeviceMemoryError: the model does not fit. It is then where it was.
    """

    def __init__(
        self,
        model: Any,
        devices: Sequence[DeviceLike] | None = None,
        *,
        reduction: str = "mean",
        batch_norm: str = "local",
        reduce_dtype: str | None = None,
    ) -> None:
        self._group = group()
        choice("batch_norm", batch_norm, ("local", "synchronized"))
        self._is_synchronized = batch_norm == "synchronized"
        self._accumulates = False
        self._held: _Held | None = None
        if devices is None:
            backend_of_model(model)  # raises if it is none
            devices = [self._group.device if self._group.size > 1 else device_of(model)]
        if self._is_synchronized:
            _check_synchronized(model, devices)
        exchange = self._group.exchange
        if reduce_dtype is not None:  # all that may be refused, before the model moves
            choice("reduce_dtype", reduce_dtype, ("float16", "bfloat16"))
            if self._group.size > 1:
                check_narrow(exchange.engines.of(backend_of_model(model))[0], reduce_dtype)
        super().__init__(model, devices, reduction=reduction)
        is_mean = self.reduction == "mean"
        self._overlap = Overlap(exchange, self.backend, is_mean=is_mean, reduce_dtype=reduce_dtype)
        if self._group.size > 1:
            tensors = list(State.of(model, self.backend).tensors.values())
            write(self.backend, tensors, self._group.broadcast(tensors))

    @contextmanager
    def accumulate(self) -> Iterator[None]:
        """``with net.accumulate():`` exchanges no gradients: the next step outside does, for all.

        Inside, ``value_and_grad`` returns this worker's own loss and gradients of that batch, and
        keeps them. The first step after the block returns those of all rows since the last
        exchange: with the reduction "mean", the mean over all their rows; with "sum", the sum.
        Workers may take different numbers of steps inside. Also in one process::

            for number, (X, y) in enumerate(batches, 1):
                with net.accumulate() if number % 4 else contextlib.nullcontext():
                    loss, gradients = unidev.value_and_grad(loss_of)(net, X, y)
                if number % 4 == 0:
                    unidev.sgd(net, gradients, lr=0.1)

        Raises:
            UnsupportedOperation: inside another such block.
        """
        if self._accumulates:
            raise UnsupportedOperation(
                f"accumulate() inside accumulate() of a {self!r}", "use one block for all steps"
            )
        self._accumulates = True
        try:
            yield
        finally:
            self._accumulates = False

    def value_and_grad(
        self, evaluate: Callable[..., tuple[Any, Any]], arguments: Any, options: Any
    ) -> tuple[Any, Any]:
        """``evaluate(model, …)`` on each device of each worker; losses and gradients reduced."""
        if self._group.size == 1 and not self._accumulates and self._held is None:
            return super().value_and_grad(evaluate, arguments, options)
        self._group.check_caller()
        is_counted = self._is_synchronized or not self._accumulates
        part = self._group.exchange.part
        part.agreement.steps += is_counted
        return part.whole(self._step, evaluate, arguments, options, is_one=False)

    def _step(
        self, evaluate: Callable[..., tuple[Any, Any]], arguments: Any, options: Any
    ) -> tuple[Any, Any]:
        begun = time.perf_counter()
        rows = rows_of(arguments)
        if not rows and self.reduction == "mean":
            raise InvalidDataError(
                "the batch has no rows, so its loss has no mean: each worker needs at least one "
                "row in each step."
            )
        held = self._held or _Held(
            Accumulated(self.backend, self.devices[0], is_mean=self.reduction == "mean"),
            Statistics(self.model, self.backend),
        )
        with held.statistics.changed(), self._synchronized(rows), self._watched(rows) as step:
            watched = evaluate if step is None else partial(evaluate, watcher=step)
            loss, gradients = super().value_and_grad(watched, arguments, options)
        if self._accumulates or self._held is not None:
            held.steps.add({_LOSS: loss, **gradients}, rows)
            self._held = held
        if self._accumulates:
            return loss, gradients
        if self._held is not None:
            self._held, rows, gradients = None, held.steps.rows, held.steps.tensors()
            loss = gradients.pop(_LOSS)
        if self._group.size == 1:
            return loss, gradients
        computed = time.perf_counter()
        step = step or Step(self._overlap, rows)  # whatever other workers do: planned alike

        def exchanged() -> tuple[Any, dict[str, Any]]:
            found = self._exchanged(loss, gradients, held.statistics, rows, step)
            ended = time.perf_counter()
            under_way_s = ended - min(step.begun, computed)
            step_times.of_this_worker.add(ended - begun, under_way_s, ended - computed)
            if thread.recorder is not None:
                hidden_s = under_way_s - (ended - computed)
                thread.recorder.exchanged(ended - under_way_s, under_way_s, hidden_s)
            return found

        return self._group.exchange.part.whole(exchanged)

    def _watched(self, rows: int) -> AbstractContextManager[Step | None]:
        """A block whose gradients may be exchanged while backward runs."""
        is_plain = len(self.devices) == 1 and not self._is_synchronized
        if not is_plain or self._group.size == 1 or self._accumulates or self._held is not None:
            return nullcontext()
        return self._overlap.watching(rows)

    def _synchronized(self, rows: int) -> AbstractContextManager[None]:
        """A block in which batch normalisation is that of all workers, if it is synchronized."""
        if not self._is_synchronized or self._group.size == 1:
            return nullcontext()
        weight = rows if self.reduction == "mean" else None
        combine = BatchMoments(self._group.exchange, self.backend, weight)
        return self.backend.layers.synchronized(self.model, combine)

    def _exchanged(
        self, loss: Any, gradients: dict[str, Any], statistics: Statistics, rows: int, step: Step
    ) -> tuple[Any, dict[str, Any]]:
        """The loss and the gradients of all workers; the statistics of the model become theirs."""
        self._check_dense(gradients)
        changes = statistics.changes()
        if step.is_planned(loss, gradients):
            loss, gradients = step.finish(loss, gradients)
        else:
            is_mean = self.reduction == "mean"
            together = changes if is_mean else []  # in one exchange, if all are means
            names = [_LOSS, *gradients, *_numbered(together)]
            found = [loss, *gradients.values(), *together]
            loss, *found = self._reduced_over_workers(names, found, rows if is_mean else None)
            gradients = dict(zip(gradients, found, strict=False))
            changes = found[len(gradients) :] if is_mean else changes
            step.learn(loss)
            if is_mean:
                statistics.add(changes)
                return loss, gradients
        if changes:
            changes = self._reduced_over_workers(_numbered(changes), changes, rows)
        statistics.add(changes)
        return loss, gradients

    def _reduced_over_workers(
        self, names: Sequence[str], tensors: list[Any], rows: int | None
    ) -> list[Any]:
        """``tensors``, this step's own, reduced over all workers; large ones are not copied."""
        op = "sum" if rows is None else "mean"
        tree = Tree.of_own(names, tensors, self.backend)
        found: list[Any] = self._group.all_reduce_tree(tree, op, rows, ANYWHERE)
        return found


def _numbered(changes: Sequence[Any]) -> list[str]:
    return [f"statistics {number}" for number in range(len(changes))]


def _check_synchronized(model: Any, devices: Sequence[DeviceLike]) -> None:
    backend = backend_of_model(model)
    if len(checked_devices(devices, backend)) > 1:
        raise UnsupportedOperation(
            'batch_norm="synchronized" over several devices of one process',
            "they compute one after the other: take one device for each worker, such as "
            "`unidev launch --workers 4 train.py`",
        )

    with backend.layers.synchronized(model, BatchMoments(group().exchange, backend, None)):
        pass  # raises if it cannot
