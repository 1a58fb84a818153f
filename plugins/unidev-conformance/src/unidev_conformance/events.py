"""The lines that a child writes while it runs checks, and that its parent reads.

Each line is one JSON object, written to the system in one call: events from before a crash are
kept, and half a line is never taken for a complete one. A child reports, in this order::

    session                       what is about to be judged, and the list of checks
    start, end, start, end, …     each check; one that started but did not end has crashed or hangs
    alive                         at most once a second between the two: the check has gone on
    finish                        every requested check has ended

or ``refused`` instead of all that, if the backend is not available. ``problem`` may occur anywhere:
something about the run as a whole that fails it, such as an expired expectation.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from unidev.backends.description import Capability, DeviceEntry

if TYPE_CHECKING:
    from pathlib import Path

CHILD_RESULTS = ("pass", "fail", "error", "xfail", "xpass", "unsupported", "not-applicable")
"""The possible results of a check that a child ran to the end."""

REFUSALS = ("backend", "simulator", "usage")
"""Why a child did not begin: no such backend, no simulated devices, or wrong options."""


class EventError(ValueError):
    """A line that is not an event."""


@dataclass(frozen=True, kw_only=True)
class CheckEntry:
    """A check of the suite, as in the catalogue."""

    check: str
    """``group.name``."""
    profile: str
    required: bool
    needs: tuple[str, ...] = ()
    """Abilities without which even a required check may be ``unsupported``."""
    summary: str = ""
    """One sentence: what it proves."""


@dataclass(frozen=True, kw_only=True)
class Session:
    """The beginning of a run: its backend, devices, profile and checks."""

    event: ClassVar[str] = "session"
    suite_version: str
    unidev_version: str
    backend: str
    framework: str
    framework_version: str
    python: str
    platform: str
    profile: str
    simulated: int
    """Number of simulated GPUs; 0 on the host's own devices."""
    devices: tuple[DeviceEntry, ...]
    capabilities: Mapping[str, Capability]
    checks: tuple[CheckEntry, ...]
    """The complete profile, in order, including checks that this child leaves out."""


@dataclass(frozen=True, kw_only=True)
class Start:
    """A check begins."""

    event: ClassVar[str] = "start"
    check: str


@dataclass(frozen=True, kw_only=True)
class Alive:
    """The check that has begun has made, compared or recorded something since the last event.

    So a check takes as long as it needs, where each of its many shapes is compiled first.
    """

    event: ClassVar[str] = "alive"


@dataclass(frozen=True, kw_only=True)
class End:
    """A check has ended."""

    event: ClassVar[str] = "end"
    check: str
    result: str
    """One of ``CHILD_RESULTS``."""
    seconds: float
    message: str = ""
    """The reason, for anything but a pass."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Something that fails the run and belongs to no check."""

    event: ClassVar[str] = "problem"
    message: str


@dataclass(frozen=True, kw_only=True)
class Refused:
    """The child cannot begin."""

    event: ClassVar[str] = "refused"
    refusal: str
    """One of ``REFUSALS``."""
    message: str


@dataclass(frozen=True, kw_only=True)
class Finish:
    """Every requested check has ended."""

    event: ClassVar[str] = "finish"


Event = Session | Start | Alive | End | Problem | Refused | Finish

_KINDS: dict[str, type[Any]] = {
    kind.event: kind for kind in (Session, Start, Alive, End, Problem, Refused, Finish)
}


class EventWriter:
    """Appends events to a file; each has reached the system when ``write`` returns."""

    def __init__(self, path: Path | str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(self, event: Event) -> None:
        """Append one event as one line."""
        fields = {each.name: getattr(event, each.name) for each in dataclasses.fields(event)}
        line = json.dumps({"event": event.event, **plain(fields)}, allow_nan=False) + "\n"
        os.write(self._file, line.encode())

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


class EventReader:
    """Reads the events written since the last call."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0

    def read(self) -> list[Event]:
        """New events, in order; an incomplete line waits for the next call.

        A line that is not an event becomes a ``Problem``: later lines still count.
        """
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._position)
            lines, _, _ = file.read().rpartition(b"\n")
        if not lines:
            return []
        self._position += len(lines) + 1
        return [_event_or_problem(line) for line in lines.split(b"\n")]


def parse_event(line: bytes | str) -> Event:
    """The event in a line.

    Raises:
        EventError: the line is not an event; says why.
    """
    try:
        fields = json.loads(line)
        kind = _KINDS[fields.pop("event")]
        return _checked(rebuilt(kind, fields))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise EventError(f"not an event of the suite: {line[:200]!r} ({error})") from error


_PARTS = {"devices": DeviceEntry, "checks": CheckEntry, "capabilities": Capability}
"""The fields that hold dataclasses themselves."""


def rebuilt(kind: type[Any], fields: Mapping[str, Any]) -> Any:
    """The inverse of ``plain``: a dataclass of these fields, and of those in them."""
    return kind(**{name: _part(_PARTS.get(name), value) for name, value in fields.items()})


def _part(kind: type[Any] | None, value: Any) -> Any:
    if isinstance(value, list):
        return tuple(rebuilt(kind, x) if kind and isinstance(x, dict) else x for x in value)
    if kind and isinstance(value, dict):
        return {name: rebuilt(kind, each) for name, each in value.items()}
    return value


def plain(value: Any) -> Any:
    """``value`` in a form that JSON can hold without loss of meaning; other values as text."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {_text(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(each) for each in value]
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return _text(value)


def _text(value: object) -> str:
    if isinstance(value, (bytes, bytearray)):
        return value.hex()
    return str(value).encode(errors="replace").decode()  # no file can hold a lone surrogate


def _event_or_problem(line: bytes) -> Event:
    try:
        return parse_event(line)
    except EventError as error:
        return Problem(message=str(error))


def _checked(event: Event) -> Event:
    if isinstance(event, End) and event.result not in CHILD_RESULTS:
        raise EventError(f"{event.result!r} is not a result: {', '.join(CHILD_RESULTS)}")
    if isinstance(event, Refused) and event.refusal not in REFUSALS:
        raise EventError(f"{event.refusal!r} is not a refusal: {', '.join(REFUSALS)}")
    return event
