"""All checks in one configuration: as many children as are needed to give each check a result."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from unidev_conformance.events import End, Finish, Problem, Refused, Session, Start
from unidev_conformance.judging.report import Configuration
from unidev_conformance.judging.verdict import WRONG
from unidev_conformance.running.child import Child, Ending, Order

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from unidev.system.child_processes import Interruption
    from unidev_conformance.events import Event

FAIL_FAST = "at the first failure, because of --fail-fast"


class RefusedError(Exception):
    """The child reports that it cannot begin: no such backend, or wrong options."""

    def __init__(self, refusal: str, message: str) -> None:
        super().__init__(message)
        self.refusal = refusal


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far the run is, to show progress."""

    configuration: str
    check: str | None
    """The check that is running; None while the backend is being loaded."""
    done: int
    of: int
    loading: str | None = None
    """The child's own progress line, while the backend is being loaded."""


@dataclass
class ConfigurationRun:
    """The run of one configuration, and its reports so far."""

    name: str
    backend: str
    profile: str
    simulated: int
    only: tuple[str, ...] | None
    timeout_s: float
    on_progress: Callable[[Progress], None]
    simulate_as: str | None = None
    """The framework's name for the simulated GPUs."""
    fail_fast: bool = False
    """Whether to end at the first result that keeps the backend from conforming."""

    session: Session | None = None
    ends: dict[str, End] = field(default_factory=dict)
    """By check: what the child reported."""
    broken: dict[str, tuple[str, str, float]] = field(default_factory=dict)
    """By check: ``crash`` or ``timeout``, the message, and the seconds until then."""
    problems: list[str] = field(default_factory=list)
    interruptions: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    _running: str | None = None
    _running_since: float = 0.0
    _child: Child | None = None

    def run(self, folder: Path, stop: Interruption) -> None:
        """Start children, each for what its predecessors left, until nothing is left.

        Raises:
            RefusedError: the child cannot begin, and no other could.
        """
        attempt = 0
        while self._one_child(folder / f"child-{attempt}", stop):
            attempt += 1

    @property
    def decided_by(self) -> str | None:
        """With ``fail_fast``: the check whose result keeps the backend from conforming, or None."""
        if not self.fail_fast:
            return None
        wrong = (check for check, end in self.ends.items() if end.result in WRONG)
        return next(wrong, next(iter(self.broken), None))

    def selected(self) -> list[str]:
        """The checks to run, as far as a child has reported the list."""
        listed = [each.check for each in self.session.checks] if self.session else []
        return [check for check in listed if self.only is None or check in self.only]

    def described(self) -> Configuration:
        """The configuration, for the report."""
        return Configuration(
            name=self.name,
            simulated=self.simulated,
            devices=self.session.devices if self.session else (),
            capabilities=self.session.capabilities if self.session else {},
            problems=tuple(self.problems),
            interruptions=tuple(self.interruptions),
            remarks=tuple(self.remarks),
        )

    def _one_child(self, folder: Path, stop: Interruption) -> bool:
        """Run one child; returns whether another is needed."""
        order = Order(
            backend=self.backend,
            profile=self.profile,
            simulated=self.simulated,
            simulate_as=self.simulate_as,
            only=self.only,
            exclude=(*self.ends, *self.broken),
        )
        self._running = None
        self._child = Child(order, folder)
        ending = self._child.watch(
            self._heed,
            timeout_s=self.timeout_s,
            should_stop=lambda: bool(stop) or self.decided_by is not None,
        )
        if ending.how == "finished":
            self._note_exit(ending)
            return False
        if ending.how == "interrupted":
            why = f"{FAIL_FAST} ({self.decided_by})" if self.decided_by else "before its end"
            self.interruptions.append(f"interrupted {why}")
            return False
        if self._running is None:
            self.interruptions.append(self._between_checks(ending))
            return False
        self._note_broken(self._running, ending)
        left = set(self.selected()) - set(self.ends) - set(self.broken)
        return bool(left) and self.decided_by is None

    def _heed(self, event: Event | None) -> None:
        if event is None:
            self._say_where()
        elif self.decided_by is not None:
            return  # on a busy machine the child has gone on before this process read the failure
        elif isinstance(event, Session):
            self.session = self.session or event
        elif isinstance(event, Start):
            self._running, self._running_since = event.check, time.monotonic()
        elif isinstance(event, End):
            self.ends[event.check] = event
            self._running = None
        elif isinstance(event, Problem):
            if event.message not in self.problems:  # each restarted child repeats it
                self.problems.append(event.message)
        elif isinstance(event, Refused):
            self._refused(event)
        elif isinstance(event, Finish):
            self._running = None

    def _refused(self, event: Refused) -> None:
        if event.refusal != "simulator":
            raise RefusedError(event.refusal, event.message)
        self.interruptions.append(f"no simulated devices available: {event.message}")

    def _note_exit(self, ending: Ending) -> None:
        # Every check has its result; a framework that crashes at Python's exit is worth a line.
        if ending.exit_code < 0:
            self.remarks.append(f"the process ended badly after its last check: {ending.described}")

    def _note_broken(self, check: str, ending: Ending) -> None:
        seconds = round(time.monotonic() - self._running_since, 3)
        if ending.how == "timed-out":
            said = f"\n{ending.last_lines}" if ending.last_lines else ""
            message = f"no sign of life for {self.timeout_s:g} s; it was ended.{said}"
            self.broken[check] = ("timeout", message, seconds)
        else:
            message = f"the process died during this check: {ending.described}"
            self.broken[check] = ("crash", message, seconds)

    def _between_checks(self, ending: Ending) -> str:
        when = "before the first check" if self.session is None else "between two checks"
        if self.interruptions:
            when += " (see above)"
        what = f"no sign of life for {self.timeout_s:g} s, " if ending.how == "timed-out" else ""
        return f"the child ended {when}: {what}{ending.described}"

    def _say_where(self) -> None:
        self.on_progress(
            Progress(
                configuration=self.name,
                check=self._running,
                done=len(self.ends) + len(self.broken),
                of=len(self.selected()),
                loading=self._child.said() if self._child and not self.session else None,
            )
        )
