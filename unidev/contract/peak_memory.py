"""``PeakCounter``: the part of the contract that knows the most memory that was in use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unidev.contract.backend import Backend
    from unidev.contract.device import Device


class PeakCounter(ABC):
    """A framework's own count of what its tensors take on a device, and of its peak.

    Every method raises ``UnsupportedOperation`` for a device on which the framework counts nothing.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    @abstractmethod
    def used_bytes(self, device: Device) -> int:
        """What tensors take now."""

    @abstractmethod
    def peak_bytes(self, device: Device) -> int:
        """The most that they took at once since ``restart``, or since the process began."""

    @abstractmethod
    def restart(self, device: Device) -> None:
        """Let the peak begin anew, from what is in use now. Changes nothing else."""
