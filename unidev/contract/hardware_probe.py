"""``HardwareProbe``: what the conformance profile ``hardware`` needs beside real GPUs.

Like ``Probe``, it uses the framework's *own* calls, never the methods under test.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from unidev.contract.optional import BackendPart

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from unidev.contract.layers import Model, Tensor
    from unidev.contract.training_probe import Optimizer
    from unidev.device import Device


class RecordedCopy(NamedTuple):
    """A copy that the GPU's own profiler has recorded."""

    source: str
    """``cpu`` or ``gpu``."""
    target: str
    nbytes: int


@dataclass(frozen=True, kw_only=True)
class Training:
    """A model on the CPU, its optimizer, and what is needed to train it wherever it is."""

    model: Model
    optimizer: Optimizer
    data: Tensor
    step: Callable[[Tensor], float]
    """One step on data that is where the model is; returns the loss."""
    parameters: Callable[[], Sequence[Tensor]]
    """Those that the model has now: placing it must not replace them."""
    state: Callable[[], Sequence[Tensor]]
    """The optimizer's tensors, except counters that the framework keeps on the CPU."""
    is_tied: Callable[[], bool]
    """Whether all weights that are tied are one tensor; True without such weights."""
    closeness: float
    """How far losses on a GPU may be from those on the CPU, relative to them."""
    is_for_gpus_alone: bool = False
    """Whether the optimizer refuses the CPU once it has taken a step."""


class HardwareProbe(BackendPart, ABC):
    """Witnesses and samples for real GPUs, through the framework's own calls."""

    @abstractmethod
    def recorded(self, work: Callable[[], object]) -> Sequence[RecordedCopy]:
        """The copies that the profiler records while ``work`` runs and the GPUs finish it."""

    @abstractmethod
    def readings(self, gpu: Device) -> Mapping[str, Callable[[], object]]:
        """Work of the framework that reads tensors of ``gpu`` into Python, by name."""

    @abstractmethod
    def fail_on(self, gpu: Device) -> Tensor:
        """A result on ``gpu`` of work that fails there while nothing waits for it."""

    @abstractmethod
    def trainings(self) -> Mapping[str, Callable[[bool], Training]]:
        """Models and optimizers that differ in how they move, by name.

        The argument says whether it is for a twin that stays on the CPU: the same values in the
        model and the same data, with an optimizer that may be made for that.
        """
