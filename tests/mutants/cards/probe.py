"""Made-up cards with a profiler and work that fails on them, and backends wrong in that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import unidev
from mutants.cards.hardware import cards_mutant, plain, put_cards_into
from mutants.mutant import around, replace, replace_value, torch_mutant
from unidev.backends.numpy_backend.probe import NumpyProbe
from unidev.contract import HardwareProbe, RecordedCopy
from unidev_conformance.kit.workbench import Workbench

if TYPE_CHECKING:
    from mutants.cards.hardware import Cards


def put_hardware_probe_into(backend: Any) -> None:
    """Cards whose copies are recorded, and on which work can fail; rightly."""

    cards = put_cards_into(backend)
    records: list[RecordedCopy] = []
    put, copy, read = backend._on, backend.copy_to, backend.to_numpy

    @replace(backend)
    def _on(self: Any, array: Any, device: Any) -> Any:
        if device.kind == "gpu":
            records.append(RecordedCopy("cpu", "gpu", array.nbytes))
        return put(self, array, device)

    @replace(backend)
    def copy_to(self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        if self.device_of(x).kind == "gpu":
            records.append(RecordedCopy("gpu", device.kind, x.nbytes))
        return copy(self, x, device, non_blocking)

    @replace(backend)
    def to_numpy(self: Any, x: Any) -> Any:
        if self.device_of(x).kind == "gpu":
            records.append(RecordedCopy("gpu", "cpu", x.nbytes))
        return read(self, x)

    def hardware(self: Any) -> Any:
        return _hardware_probe(self.backend, cards, records)

    replace_value(NumpyProbe, "hardware", property(hardware))


def _hardware_probe(backend: Any, cards: Cards, records: list[Any]) -> Any:

    def fail() -> None:
        raise RuntimeError("CUDA error: device-side assert triggered")

    class CardsProbe(HardwareProbe):
        def recorded(self, work: Any) -> Any:
            records.clear()
            work()
            return list(records)

        def readings(self, gpu: Any) -> Any:
            return {}

        def fail_on(self, gpu: Any) -> Any:
            y, card = self.backend.empty((4,), "float32", gpu), cards.all[gpu.index]
            card.queues[cards.stream(card)].append(fail)
            return y

        def trainings(self) -> Any:
            return {}

    return CardsProbe(backend)


@cards_mutant(
    "kernels.failure_is_reported", "bus.trace_is_what_the_profiler_records",
    result="pass", profile="hardware",
)  # fmt: skip
def cards_with_a_profiler(backend):
    """Nothing is broken: cards whose copies are recorded, and that report what fails on them."""
    put_hardware_probe_into(backend)


@cards_mutant("kernels.failure_is_reported", profile="hardware")
def waiting_swallows_failures(backend):
    """``cudaStreamSynchronize`` whose result is not looked at."""
    import contextlib

    put_hardware_probe_into(backend)

    @around(backend)
    def synchronize(wait, self, device):
        with contextlib.suppress(RuntimeError):
            wait(self, device)


@cards_mutant("kernels.failure_is_reported", profile="hardware")
def failures_are_the_frameworks_own(backend):
    """The framework's class of errors is not the one that its devices raise."""
    put_hardware_probe_into(backend)
    replace_value(backend, "framework_errors", (MemoryError,))


@cards_mutant("bus.trace_is_what_the_profiler_records", profile="hardware")
def copies_cross_the_bus_twice(backend):
    """A tensor goes to a card to be converted there, comes back, and goes again."""
    put_hardware_probe_into(backend)

    @around(backend)
    def copy_to(copy, self, x, device, non_blocking):
        if device.kind == "gpu" and self.device_of(x).kind == "cpu":
            self._on(plain(x), device)
        return copy(self, x, device, non_blocking)


def _put_real_gpus_into(*kinds: str) -> None:
    """Take PyTorch's simulated GPUs for real ones, on which these models train."""
    from unidev_torch.probe import hardware

    replace_value(Workbench, "real_gpus", Workbench.gpus)
    replace_value(hardware, "KINDS", {kind: hardware.KINDS[kind] for kind in kinds})


@torch_mutant("moving.while_it_trains", result="pass", profile="hardware")
def models_move_while_they_train(backend):
    """Nothing is broken: a model and its optimizer come and go."""
    _put_real_gpus_into("AdamW", "an LSTM", "tied weights", "bfloat16")


@torch_mutant("moving.while_it_trains", profile="hardware")
def ties_come_apart_on_the_way(backend):
    """Each layer gets a weight of its own, of equal values, once it has moved."""
    import torch

    _put_real_gpus_into("tied weights")
    place = unidev.place

    def untying(model, device, *, optimizer=None):
        placed = place(model, device, optimizer=optimizer)
        model.last.weight = torch.nn.Parameter(model.last.weight.detach().clone())
        return placed

    replace_value(unidev, "place", untying)
