"""Values that the errors hold, and that several packages name: plain data, without a framework."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from unidev.device import Device


class PlannedTransfer(NamedTuple):
    """Bytes that go from one device to another."""

    operation: str
    """Its name for users: ``Tensor.item``, ``asnumpy``, ``add of mixed operands``."""
    source: Device
    target: Device
    """Values read into Python or NumPy go to ``cpu:0``."""
    nbytes: int
    shape: tuple[int, ...] | None
    """Shape of the tensor that moves; None for several at once, or if unknown."""


CELL = "In ["
"""How the names of IPython's cells begin."""


class Line(NamedTuple):
    """A line of the user's program."""

    file: str
    """Its path; in a notebook, the cell: ``In [4]``."""
    number: int
    function: str
    source: str
    """Its text; empty if the file cannot be read."""

    def __str__(self) -> str:
        name = os.path.relpath(self.file) if self._is_near else self.file
        # `<cell line: 1>`: what some versions of IPython call a cell's own code
        is_outside = self.function == "<module>" or self.function.startswith("<cell line")
        where = "" if is_outside else f" in {self.function}"
        if self.file.startswith(CELL):
            return f"{self.file}, line {self.number}{where}"
        return f"{name}:{self.number}{where}"

    @property
    def _is_near(self) -> bool:
        try:
            return self.file.startswith(os.getcwd() + os.sep)
        except FileNotFoundError:  # the current folder has been deleted
            return False


class MemoryHolder(NamedTuple):
    """A process that holds memory of a device."""

    pid: int
    name: str | None
    """The program's name, without arguments; None: the process belongs to another user."""
    used_bytes: int | None
    """None: the driver does not report it, as in some containers and on Windows."""
