"""``Trace``: the transfers of one block, by line; as a table, JSON or a file for Perfetto."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from unidev.support.deprecation import deprecated
from unidev.support.wording import bytes_text, count_text

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from unidev.contract.device import Device
    from unidev.tracing.call_site import Line
    from unidev.tracing.recorder import Recorder


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

    @property
    def is_asked(self) -> bool:
        """Deprecated spelling of ``is_explicit``."""
        deprecated("Transfer.is_asked", "Transfer.is_explicit")
        return self.is_explicit


@dataclass(frozen=True)
class LineTotal:
    """All transfers that one line made."""

    line: Line
    transfers: tuple[Transfer, ...]

    @property
    def count(self) -> int:
        """The number of transfers."""
        return len(self.transfers)

    @cached_property
    def nbytes(self) -> int:
        """The sum over all transfers, in bytes."""
        return sum(each.nbytes for each in self.transfers)

    @cached_property
    def seconds(self) -> float:
        """The sum over all transfers, in seconds."""
        return sum(each.seconds for each in self.transfers)

    @cached_property
    def advice(self) -> str:
        """What to do about it; empty if nothing needs fixing."""
        from unidev.tracing.advice import advice

        return advice(self)


class Trace:
    """What ``trace_transfers`` recorded.

    Attributes:
        transfers: all transfers, in the order in which they ended.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.transfers: list[Transfer] = []
        self.start = perf_counter()
        self._recorder: Recorder | None = recorder
        self._blind_spots: dict[str, Mapping[str, str]] = {}
        self._not_seen: dict[str, str] = {}

    def finish(self) -> None:
        """Copy what is needed from the recorder, which is about to close."""
        self._blind_spots, self._not_seen = self.blind_spots, self.not_seen
        self._recorder = None

    @property
    def total_bytes(self) -> int:
        """The bytes moved by all transfers."""
        return sum(each.nbytes for each in self.transfers)

    @property
    def total_seconds(self) -> float:
        """The seconds taken by all transfers."""
        return sum(each.seconds for each in self.transfers)

    @property
    def is_seconds_real(self) -> bool:
        """Whether all times reflect real hardware; false if any device is simulated."""
        return all(each.is_seconds_real for each in self.transfers)

    @property
    def blind_spots(self) -> dict[str, Mapping[str, str]]:
        """What is not seen, and why, by backend; under ``unidev``, what applies to all backends."""
        if self._recorder is None:
            return self._blind_spots
        own = dict(_BLIND_SPOTS)
        if any(each.operation == "place" for each in self.transfers):
            own |= _BLIND_SPOTS_OF_PLACE
        return {"unidev": own, **self._recorder.blind_spots}

    @property
    def not_seen(self) -> dict[str, str]:
        """Backends whose framework's own transfers are not seen at all, and why."""
        return self._not_seen if self._recorder is None else self._recorder.missed()

    def by_line(self) -> list[LineTotal]:
        """The transfers grouped by the line that made them, the most expensive line first.

        Sorted by seconds; on simulated devices, by an estimate for a GPU on a typical bus: 10 µs
        for each transfer plus 0.1 ns for each byte.
        """
        found: dict[tuple[str, int], list[Transfer]] = {}
        for each in self.transfers:
            found.setdefault((each.line.file, each.line.number), []).append(each)
        totals = [LineTotal(group[0].line, tuple(group)) for group in found.values()]
        is_real = self.is_seconds_real
        return sorted(totals, key=lambda total: -_cost(total, is_real=is_real))

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """The trace as JSON, described in docs/tracing.md; also written to ``path`` if given."""
        from unidev.tracing.export import to_json

        return to_json(self, path)

    def to_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write a file for https://ui.perfetto.dev or ``chrome://tracing``."""
        from unidev.tracing.export import to_chrome_trace

        to_chrome_trace(self, path)

    def __str__(self) -> str:
        from unidev.tracing.table import table

        return table(self)

    def __repr__(self) -> str:
        count = count_text(len(self.transfers), "transfer")
        return f"<Trace of {count}, {bytes_text(self.total_bytes)}>"


_BLIND_SPOTS = {"other threads": "a trace sees only the thread that opened it"}
_BLIND_SPOTS_OF_PLACE = {
    "the state of an optimizer": "place(model, device, optimizer=...) moves it along with the "
    "model, but counts only the model's bytes",
}


def _cost(total: LineTotal, *, is_real: bool) -> float:
    return total.seconds if is_real else total.count * 1e-5 + total.nbytes / 1e10
