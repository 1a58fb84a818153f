"""What a trace holds: transfers, exchanges of gradients, and all transfers of one kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from unidev.device import Device
    from unidev.values import Line


class Transfer(NamedTuple):
    """One recorded transfer between two devices."""

    operation: str
    """The user's name for it: ``copy_to``, ``Tensor.item``."""
    source: Device
    target: Device
    nbytes: int
    shape: tuple[int, ...] | None
    """The tensor's shape; None if several tensors moved together, as for a model."""
    seconds: float
    """How long the call took."""
    thread: str
    line: Line
    """The user's line: file, number, function, source."""
    is_explicit: bool
    """Whether a call of unidev named the device; ``transfer_guard`` stops implicit transfers."""
    is_seconds_real: bool
    """Whether ``seconds`` reflects real hardware; false for simulated devices."""
    start: float
    """When the call began, as given by ``time.perf_counter``."""
    call: int
    """The number of the call: all transfers of one call, such as ``save_parameters`` or
    ``Module.to``, share it."""


class Exchange(NamedTuple):
    """The exchange of one step's gradients with the other workers."""

    start: float
    """When its first bucket began, as given by ``time.perf_counter``."""
    seconds: float
    """Until all workers had the results."""
    hidden_s: float
    """The part of ``seconds``, from the start, in which backward still ran."""


@dataclass
class Kind:
    """All transfers that one line made by one operation from one device to another."""

    first: Transfer
    count: int = 0
    nbytes: int = 0
    seconds: float = 0.0
    is_seconds_real: bool = True

    @property
    def cost(self) -> float:
        """Seconds; on simulated devices, an estimate for a GPU on a typical bus."""
        if self.is_seconds_real:
            return self.seconds
        return self.count * 1e-5 + self.nbytes / 1e10
