"""``Record``: the transfers of one block, and their totals by line."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from unidev.system.forking import fork_safe_lock
from unidev.tracing.advice import advice
from unidev.tracing.transfer import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Protocol

    from unidev.contract.backend_spec import Race
    from unidev.device import Device
    from unidev.tracing.transfer import Exchange, Transfer
    from unidev.values import Line

    class _Recorder(Protocol):
        """The recorder's facts, which change while it is open."""

        blind_spots: dict[str, Mapping[str, str]]
        gpu_queries: dict[str, str]
        late_changes: dict[str, str]

        def races(self) -> list[Race]:
            """Those of this process so far."""

        def missed(self) -> dict[str, str]:
            """Backends that are not traced, and why."""


_adding = fork_safe_lock()
_BLIND_SPOTS = {"other threads": "a trace sees only the thread that opened it"}
_BLIND_SPOTS_OF_PLACE = {
    "the state of an optimizer": "place(model, device, optimizer=...) moves it along with the "
    "model, but counts only the model's bytes"
}


class LineTotal:
    """All transfers that one line made."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self._kinds: dict[tuple[str, Device, Device], Kind] = {}
        self._calls: dict[str, int] = {}
        self._last_calls: dict[str, int] = {}

    def add(self, transfer: Transfer) -> None:
        """Count one more transfer."""
        key = transfer.operation, transfer.source, transfer.target
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = Kind(transfer)
        kind.count += 1
        kind.nbytes += transfer.nbytes
        kind.seconds += transfer.seconds
        kind.is_seconds_real &= transfer.is_seconds_real
        if self._last_calls.get(transfer.operation) != transfer.call:
            self._last_calls[transfer.operation] = transfer.call
            self._calls[transfer.operation] = self.calls(transfer.operation) + 1

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The transfers by operation and devices."""
        return tuple(self._kinds.values())

    def calls(self, operation: str) -> int:
        """The number of calls of ``operation``; each may make several transfers."""
        return self._calls.get(operation, 0)

    @property
    def count(self) -> int:
        """The number of transfers."""
        return sum(each.count for each in self.kinds)

    @property
    def nbytes(self) -> int:
        """The sum over all transfers, in bytes."""
        return sum(each.nbytes for each in self.kinds)

    @property
    def seconds(self) -> float:
        """The sum over all transfers, in seconds."""
        return sum(each.seconds for each in self.kinds)

    @property
    def advice(self) -> str:
        """Advice on how to fix it; empty if nothing needs fixing."""
        first = max(self.kinds, key=lambda kind: kind.cost).first
        return advice(first, self.calls(first.operation))


class Record:
    """The transfers of one block, and their totals by line: a ``Trace`` without its outputs."""

    def __init__(self, recorder: _Recorder, limit: int) -> None:
        self.transfers: list[Transfer] = []
        self.exchanges: list[Exchange] = []
        self.limit = limit
        self.start = perf_counter()
        self._lines: dict[tuple[str, int], LineTotal] = {}
        self.recorder: _Recorder | None = recorder
        self._blind_spots: dict[str, Mapping[str, str]] = {}
        self._not_seen: dict[str, str] = {}
        self._gpu_queries = recorder.gpu_queries
        self._late_changes = recorder.late_changes
        self._races_before = {race.lines: race.count for race in recorder.races()}
        self._races: list[Race] = []

    def add(self, transfer: Transfer) -> None:
        """Record one more transfer."""
        key = transfer.line.file, transfer.line.number
        with _adding:  # threads that work for this one add theirs
            if len(self.transfers) < self.limit:
                self.transfers.append(transfer)
            total = self._lines.get(key)
            if total is None:
                total = self._lines[key] = LineTotal(transfer.line)
            total.add(transfer)

    def add_exchange(self, exchange: Exchange) -> None:
        """Record an exchange of gradients."""
        if len(self.exchanges) < self.limit:
            self.exchanges.append(exchange)

    def finish(self) -> None:
        """Copy what is needed from the recorder, which is about to close."""
        self._blind_spots, self._not_seen = self.blind_spots, self.not_seen
        self._races = self.races
        self.recorder = None

    @property
    def count(self) -> int:
        """The number of all transfers."""
        return sum(each.count for each in self._lines.values())

    @property
    def left_out(self) -> int:
        """The number of transfers that are not in ``transfers``."""
        return self.count - len(self.transfers)

    @property
    def total_bytes(self) -> int:
        """The bytes moved by all transfers."""
        return sum(each.nbytes for each in self._lines.values())

    @property
    def total_seconds(self) -> float:
        """The seconds taken by all transfers."""
        return sum(each.seconds for each in self._lines.values())

    @property
    def is_seconds_real(self) -> bool:
        """Whether all times reflect real hardware; false if any device is simulated."""
        return all(kind.is_seconds_real for each in self._lines.values() for kind in each.kinds)

    @property
    def blind_spots(self) -> dict[str, Mapping[str, str]]:
        """Transfers that are not seen, and why, by backend; ``unidev``: those of all backends."""
        if self.recorder is None:
            return self._blind_spots
        own = dict(_BLIND_SPOTS)
        if any(each.calls("place") for each in self._lines.values()):
            own |= _BLIND_SPOTS_OF_PLACE
        return {"unidev": own, **self.recorder.blind_spots}

    @property
    def not_seen(self) -> dict[str, str]:
        """Backends whose framework's own transfers are not seen at all, and why."""
        return self._not_seen if self.recorder is None else self.recorder.missed()

    @property
    def gpu_queries(self) -> dict[str, str]:
        """Functions that the program called and that do not see simulated GPUs; where, and why."""
        return dict(self._gpu_queries)

    @property
    def late_changes(self) -> dict[str, str]:
        """Variables such as ``CUDA_VISIBLE_DEVICES`` that the program changed too late; where."""
        return dict(self._late_changes)

    @property
    def races(self) -> list[Race]:
        """What simulated GPUs that lose races have lost since the trace began, in any thread."""
        if self.recorder is None:
            return self._races
        before, now = self._races_before, self.recorder.races()
        return [race for race in now if race.count > before.get(race.lines, 0)]

    def by_line(self) -> list[LineTotal]:
        """The transfers grouped by the line that made them, the most expensive line first.

        Sorted by seconds; on simulated devices, by an estimate for a GPU on a typical bus: 10 µs
        for each transfer plus 0.1 ns for each byte.
        """
        if self.is_seconds_real:
            return sorted(self._lines.values(), key=lambda total: -total.seconds)
        return sorted(
            self._lines.values(), key=lambda total: -(total.count * 1e-5 + total.nbytes / 1e10)
        )
