"""``Memory``: how much of a device's memory is in use, by the framework's count."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from unidev.calls.driver_memory import DriverMemory


class Memory(NamedTuple):
    """A device's memory in bytes, by the framework's count."""

    used_bytes: int
    """In tensors of this device alone. An allocator may count a tensor as whole blocks."""
    free_bytes: int
    total_bytes: int

    @property
    def reserved_bytes(self) -> int | None:
        """What the framework's allocator holds, in tensors and in reserve; None: not reported.

        Part of it can be used again for tensors, although ``free_bytes`` does not include it.
        """
        return None

    @property
    def driver(self) -> DriverMemory | None:
        """The driver's count, which includes other processes; None if no driver reports one."""
        return None

    def _repr_html_(self) -> str:
        """For notebooks: the three numbers, as a table."""
        from unidev.support.tables import Table, as_html

        return as_html([Table(self._fields, [[f"{each:,}" for each in self]], len(self))])

    def with_reserved(self, reserved_bytes: int) -> Memory:
        """The same, with what the framework's allocator holds."""
        return DetailedMemory.of(self, reserved_bytes, self.driver)

    def with_driver(self, driver: DriverMemory) -> Memory:
        """The same, with the driver's count."""
        return DetailedMemory.of(self, self.reserved_bytes, driver)


class DetailedMemory(Memory):
    """More than the three numbers, which alone are the tuple."""

    _reserved_bytes: int | None = None
    _driver: DriverMemory | None = None

    @classmethod
    def of(cls, memory: Memory, reserved_bytes: int | None, driver: DriverMemory | None) -> Memory:
        """``memory`` with its details."""
        made = cls(*memory)
        made._reserved_bytes, made._driver = reserved_bytes, driver
        return made

    @property
    def reserved_bytes(self) -> int | None:
        """What the framework's allocator holds."""
        return self._reserved_bytes

    @property
    def driver(self) -> DriverMemory | None:
        """The driver's count."""
        return self._driver
