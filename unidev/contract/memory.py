"""Memory: extents of a tensor's storage, a device's used and free bytes, and its peak."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

from unidev.contract.optional import BackendPart

if TYPE_CHECKING:
    from unidev.device import Device
    from unidev.values import MemoryHolder


class Extent(NamedTuple):
    """A contiguous range of memory: the address of its first byte, and its length in bytes."""

    address: int
    nbytes: int

    def overlaps(self, other: Extent) -> bool:
        """Whether the two have a byte in common."""
        start = max(self.address, other.address)
        return start < min(self.address + self.nbytes, other.address + other.nbytes)


class DriverMemory(NamedTuple):
    """A GPU's memory as its driver reports it, in bytes, for all processes together."""

    used_bytes: int
    free_bytes: int
    total_bytes: int
    holders: tuple[MemoryHolder, ...]
    """The processes that hold it, largest first."""
    parent: str | None = None
    """For an instance (MIG), the GPU that is divided: ``GPU 0, NVIDIA H200``."""


class Memory(NamedTuple):
    """A device's memory in bytes, by the framework's count."""

    used_bytes: int
    """In tensors of this device alone. An allocator may count a tensor as whole blocks."""
    free_bytes: int
    total_bytes: int

    @property
    def reserved_bytes(self) -> int | None:
        """Bytes held by the framework's allocator, in tensors and in reserve; None: not reported.

        Part of it can be used again for tensors, although ``free_bytes`` does not include it.
        """
        return None

    @property
    def driver(self) -> DriverMemory | None:
        """The driver's count, which includes other processes; None if no driver reports one."""
        return None

    @property
    def is_shared(self) -> bool:
        """Whether a GPU has no memory of its own: free and total are then the host's."""
        return False

    def _repr_html_(self) -> str:
        """For notebooks: the three numbers, as a table."""
        from unidev.system.tables import Table, as_html

        notes = {0: ("shared with the host",)} if self.is_shared else {}
        return as_html([Table(self._fields, [[f"{each:,}" for each in self]], len(self), notes)])

    def with_reserved(self, reserved_bytes: int) -> Memory:
        """The same, with what the framework's allocator holds."""
        return self._detailed(reserved_bytes, self.driver, self.is_shared)

    def with_driver(self, driver: DriverMemory) -> Memory:
        """The same, with the driver's count."""
        return self._detailed(self.reserved_bytes, driver, self.is_shared)

    def of_host(self, free_bytes: int, total_bytes: int) -> Memory:
        """That of a GPU which shares the host's memory, of which so much is free."""
        hosts = Memory(self.used_bytes, free_bytes, total_bytes)
        return hosts._detailed(self.reserved_bytes, None, True)

    def _detailed(
        self, reserved_bytes: int | None, driver: DriverMemory | None, is_shared: bool
    ) -> Memory:
        made = DetailedMemory(*self)
        made.reserved_bytes, made.driver, made.is_shared = reserved_bytes, driver, is_shared
        return made


class DetailedMemory(Memory):
    """More than the three numbers, which alone are the tuple."""

    reserved_bytes: int | None = None
    driver: DriverMemory | None = None
    is_shared: bool = False


class PeakCounter(BackendPart, ABC):
    """A framework's own count of its tensors' memory on a device, and of its peak.

    Every method raises ``UnsupportedOperation`` for a device on which the framework does not count.
    """

    @abstractmethod
    def used_bytes(self, device: Device) -> int:
        """Memory that tensors on this device use now: less, once one of them is released."""

    @abstractmethod
    def peak_bytes(self, device: Device) -> int:
        """Peak memory since ``restart``, or since the process began."""

    @abstractmethod
    def restart(self, device: Device) -> None:
        """Reset the peak to what is in use now. Changes nothing else, nor another device's peak."""
