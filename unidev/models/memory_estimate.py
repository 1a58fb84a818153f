"""``MemoryEstimate``: what ``estimate_memory`` returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from unidev.support.wording import bytes_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from unidev.contract.device import Device

LEFT_OUT = "Not included: libraries' workspaces, fragmentation, and what the driver itself takes."


class MemoryEstimate(NamedTuple):
    """The peak memory of a training step, in bytes; from ``estimate_memory``."""

    device: Device
    """Whose tensors were counted."""
    peak_bytes: int
    by_kind: Mapping[str, int]
    """The part of each kind in ``peak_bytes``: parameters, gradients, and so on."""
    batch: int | None
    """The rows of the batch; None if no tensor was among the step's arguments."""
    limit_bytes: int | None = None
    """``of``, in bytes."""
    largest_batch: int | None = None
    """The most rows whose peak is at most ``limit_bytes``: 0 if not even two rows fit."""
    is_extrapolated: bool = False
    """Whether ``largest_batch`` continues a line, since there was no room to try it."""

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _repr_html_(self) -> str:
        """For notebooks: the same, as a table."""
        from unidev.support.tables import Table, as_html

        lines = [*self._lines()]
        rows = [[kind, bytes_text(count)] for kind, count in self.by_kind.items()]
        return as_html([lines[0], Table((), rows), *lines[len(rows) + 1 :]])

    def _lines(self) -> Iterator[str]:
        rows = "" if self.batch is None else f", for a batch of {self.batch:,}"
        yield f"peak memory of a step on {self.device}{rows}: {bytes_text(self.peak_bytes)}"
        width = max(map(len, self.by_kind))
        for kind, count in self.by_kind.items():
            yield f"  {kind.ljust(width)}  {bytes_text(count)}"
        if self.limit_bytes is not None:
            limit = bytes_text(self.limit_bytes)
            yield (
                f"largest batch within {limit}: {self.largest_batch:,}"
                + (" (extrapolated)" if self.is_extrapolated else "")
                if self.largest_batch
                else f"not even a batch of 2 fits into {limit}"
            )
        yield LEFT_OUT
