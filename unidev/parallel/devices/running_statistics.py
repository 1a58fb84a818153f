"""Running statistics of replicas: their mean, by the rows that each has seen."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from unidev.backends.boundary import call
from unidev.parallel.devices.packing import reduce_to, unrecorded, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from unidev.contract.backend import Backend
    from unidev.device import Device

    Tensor = Any


class Statistics:
    """The changes that a forward makes to the running statistics of each replica.

    Their mean is added, not that of the statistics themselves: those that did not change keep their
    bits.
    """

    def __init__(self, model: Any, backend: Backend) -> None:
        self._model = model
        self._backend = backend
        self._before: list[Tensor] = []
        self._changes: list[list[Tensor]] = []

    @contextmanager
    def changed(self) -> Iterator[None]:
        """A block in which one replica, which is swapped in, computes."""
        before = self._packed()
        yield
        if not before:
            self._changes.append([])
            return
        use, after = self._backend.collectives, self._packed()
        self._changes.append(self._computed(lambda: [
            use.combine(new, use.scale(use.pack([old]), -1.0), "sum")
            for old, new in zip(before, after, strict=True)
        ]))  # fmt: skip
        self._before = self._before or before  # the first replica's

    def average(self, rows: Sequence[int], device: Device, operation: str) -> None:
        """Add the mean change to those of the model, which is on ``device``."""
        if self._before:
            self.add(
                reduce_to(self._backend, self._changes, device, "mean", rows, operation=operation)
            )

    def changes(self) -> list[Tensor]:
        """The changes by all forwards, added up: a flat tensor for each dtype."""
        combine = self._backend.collectives.combine
        total, *others = self._changes
        for more in others:
            total = self._computed(lambda: [
                combine(a, b, "sum") for a, b in zip(total, more, strict=True)  # noqa: B023
            ])  # fmt: skip
        return total

    def add(self, changes: Sequence[Tensor]) -> None:
        """Write what the statistics were before, plus ``changes``, to those of the model."""
        if not self._before:
            return
        use = self._backend.collectives
        for group, before, change in zip(self._groups(), self._before, changes, strict=True):
            shapes = [tuple(x.shape) for x in group]
            total = self._computed(partial(use.combine, before, change, "sum"))
            write(self._backend, group, self._computed(partial(use.unpack, total, shapes)))

    def _packed(self) -> list[Tensor]:
        pack = self._backend.collectives.pack
        return [self._computed(partial(pack, group)) for group in self._groups()]

    def _computed(self, function: Callable[[], Any]) -> Any:
        """Its result, without a record of autograd's, or of a trace: some backends read tensors."""
        with unrecorded(self._backend):
            return call(self._backend, function, doing="averaging running statistics")

    def _groups(self) -> list[list[Tensor]]:
        by_dtype: dict[Any, list[Tensor]] = {}
        found = self._backend.models.statistics(self._model).values()
        for x in {id(x): x for x in found}.values():
            by_dtype.setdefault(x.dtype, []).append(x)
        return list(by_dtype.values())
