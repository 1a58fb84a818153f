"""``PeakCounter``: the part of the contract for peak memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unidev.contract.backend import Backend
    from unidev.contract.device import Device


class PeakCounter(ABC):
    """A framework's own count of its tensors' memory on a device, and of its peak.

    Every method raises ``UnsupportedOperation`` for a device on which the framework does not count.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    @abstractmethod
    def used_bytes(self, device: Device) -> int:
        """Memory that tensors on this device use now: less, once one of them is released."""

    @abstractmethod
    def peak_bytes(self, device: Device) -> int:
        """Peak memory since ``restart``, or since the process began."""

    @abstractmethod
    def restart(self, device: Device) -> None:
        """Reset the peak to what is in use now. Changes nothing else, nor another device's peak."""
