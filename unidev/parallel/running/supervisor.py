"""Watches the workers of a run: passes on their messages, and finds who failed first.

Broken collectives of the others are consequences.
"""

from __future__ import annotations

import math
import pickle
import signal
import sys
import time
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from unidev.errors import WorkerFailedError
from unidev.parallel.messages.comparing import Comparisons
from unidev.system.child_processes import TAIL_LINES, describe_exit
from unidev.system.host.board import BACKWARD, BY_THE_FIRST, JOINING, OPERATIONS
from unidev.system.host.events import Ended, Event, Output, Progress
from unidev.system.host.frames import COMPARE, FAILED, FINISH, LEFT, PARENT, RESULT, Frame
from unidev.system.printing import say, show
from unidev.system.wording import one_line, seconds_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from unidev.contract.launcher import Launcher

_TICK_S = 0.2
_SETTLE_S = 0.3
"""How long to wait after a failure for others that were noticed a little later."""
_GRACE_S = 5.0
"""How long to wait for the cause of a broken collective."""
_EXIT_S = 10.0
"""How long workers may take to exit once all have returned."""

CAUSE, SUSPECT, CONSEQUENCE = range(3)
"""How likely a failure is what the others follow from."""
_CRASHES = (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)


class Failure(NamedTuple):
    """One worker's failure."""

    degree: int
    rank: int
    what: str
    """After "worker 1 on HOST": ``was killed by SIGKILL``."""
    traceback: str = ""
    signal: str | None = None


class Supervisor:
    """One run, from the first message to the last."""

    def __init__(self, launcher: Launcher, timeout_s: float) -> None:
        self._launcher = launcher
        self._timeout_s = timeout_s
        size = len(launcher.hosts)
        self._progress = dict.fromkeys(range(size), Progress())
        self._since = dict.fromkeys(range(size), time.monotonic())
        self._results: dict[int, bytes] = {}
        self._failures: dict[int, Failure] = {}
        self._failed_at = 0.0
        self._left: Failure | None = None
        """The first worker that has left a collective early, if there is one."""
        self._left_at = math.inf
        self._ended: set[int] = set()
        self._output: dict[int, deque[str]] = {
            rank: deque(maxlen=TAIL_LINES) for rank in range(size)
        }
        self._comparisons = Comparisons(size)

    def results(self) -> list[bytes]:
        """The pickled results of the workers, by rank, once all have returned."""
        size = len(self._progress)
        while len(self._results) < size:
            self._take(self._launcher.events(_TICK_S))
            for rank, frame in self._comparisons.replies():
                self._launcher.send(rank, frame)
            if not self._failures:
                self._look_for_missing()
            elif self._is_settled():
                raise self._error()
        for rank in range(size):
            self._launcher.send(rank, Frame(FINISH, PARENT, 0, b""))
        until = time.monotonic() + _EXIT_S
        while len(self._ended) < size and time.monotonic() < until:
            self._take(self._launcher.events(_TICK_S))
        for rank in sorted(self._progress.keys() - self._ended):
            self._report_lingering(rank)
        return [self._results[rank] for rank in range(size)]

    def _report_lingering(self, rank: int) -> None:
        """End a worker that has returned and does not exit, and print where it is."""
        stack = self._launcher.stack_of(rank)
        say(
            f"worker {rank} on {self._launcher.hosts[rank]} returned, but did not exit within "
            f"{seconds_text(_EXIT_S)}: a non-daemon thread, or an exit handler, still runs. "
            "It is killed."
        )
        for line in stack.splitlines():
            show(line, sys.stderr)

    # -- what is heard -------------------------------------------------------------------------

    def _take(self, events: Sequence[Event]) -> None:
        for event in events:
            _HANDLERS[type(event.news)](self, event.rank, event.news)

    def _message(self, rank: int, frame: Frame) -> None:
        for peer in frame.receivers(rank, len(self._progress)):
            self._launcher.send(peer, frame.sent_by(rank))
        if frame.kind == COMPARE:
            self._comparisons.add(rank, frame)
        elif frame.kind == RESULT:
            self._results[rank] = bytes(frame.body)
        elif frame.kind == FAILED:
            self._fail(raised(rank, pickle.loads(frame.body)))  # noqa: S301  our worker's
        elif frame.kind == LEFT:
            self._leaves(rank, frame)

    def _leaves(self, rank: int, frame: Frame) -> None:
        """Let the others know; who waits in an engine that does not let go is ended later."""
        self._left_at = min(self._left_at, time.monotonic())
        what = bytes(frame.body).decode().removeprefix(f"worker {rank} ")
        left = Failure(CONSEQUENCE if frame.tag else CAUSE, rank, what)
        if self._left is None or left.degree < self._left.degree:
            self._left = left
        for other in self._progress.keys() - {rank}:
            self._launcher.send(other, frame)

    def _printed(self, rank: int, line: Output) -> None:
        self._output[rank].append(one_line(line.text))
        show(f"[{rank}] {line.text}", sys.stdout if line.stream == 1 else sys.stderr)

    def _moved(self, rank: int, progress: Progress) -> None:
        self._progress[rank] = progress
        self._since[rank] = time.monotonic()

    def _gone(self, rank: int, end: Ended) -> None:
        code, stack = end
        self._ended.add(rank)
        if rank not in self._results:
            is_inside = self._is_inside(rank) or self._progress[rank].operation == BACKWARD
            self._fail(ended(rank, code, stack, is_inside=is_inside))

    def _fail(self, failure: Failure) -> None:
        if not self._failures:
            self._failed_at = time.monotonic()
        if self._left is not None and self._left.rank == failure.rank:
            failure = failure._replace(degree=min(failure.degree, self._left.degree))
        self._failures.setdefault(failure.rank, failure)

    # -- who is missing ------------------------------------------------------------------------

    def _is_inside(self, rank: int) -> bool:
        progress = self._progress[rank]
        return progress.entered > progress.left

    def _look_for_missing(self) -> None:
        """Note a worker that does not come to the collective in which others wait."""
        running = self._progress.keys() - self._results.keys()
        inside = sorted(rank for rank in running if self._is_inside(rank))
        if self._left is not None:
            for rank in inside:
                age = time.monotonic() - max(self._left_at, self._since[rank])
                works = rank == 0 and self._progress[rank].operation in BY_THE_FIRST
                if age > (self._timeout_s if works else _GRACE_S):
                    self._fail(self._left)
            return
        if not inside:
            return
        most = max(self._progress[rank].entered for rank in inside)
        waiting = [rank for rank in inside if self._progress[rank].entered == most]
        where = self._where(waiting[0])
        for rank in self._results:
            if self._progress[rank].entered < most or self._is_inside(rank):
                count = self._progress[rank].entered
                self._fail(Failure(
                    CAUSE, rank,
                    f"returned after {count} collectives, while worker {waiting[0]} waits in "
                    f"{where}: all workers must call the same ones, in the same order",
                ))  # fmt: skip
                return
        if time.monotonic() - min(self._since[rank] for rank in waiting) < self._timeout_s:
            return
        behind = self._behind(most)
        if behind is None:
            rank = self._hindered(waiting[0])
            what = f"did not get out of {where}, where all workers are,"
            if rank not in inside:  # it is out, and the others need its engine to get out, too
                what = f"held up worker {waiting[0]}, which did not get out of {where}"
        else:
            rank, what = behind, f"did not come to {where}, where worker {waiting[0]} waits,"
        self._fail(self._looked_at(rank, f"{what} within {seconds_text(self._timeout_s)}"))

    def _behind(self, most: int) -> int | None:
        """A worker that has come to fewer collectives, and still runs."""
        running = self._progress.keys() - self._results.keys() - self._ended
        late = [rank for rank in running if self._progress[rank].entered < most]
        return min(late, key=lambda rank: (self._progress[rank].entered, rank), default=None)

    def _hindered(self, otherwise: int) -> int:
        """The first worker that is stopped, or the like, if there is one."""
        running = sorted(self._progress.keys() - self._ended)
        return next((rank for rank in running if self._launcher.hindrance(rank)), otherwise)

    def _looked_at(self, rank: int, what: str) -> Failure:
        hindrance = self._launcher.hindrance(rank)
        if hindrance is not None:
            return Failure(CAUSE, rank, f"{what}: {hindrance}")
        return Failure(CAUSE, rank, what, self._launcher.stack_of(rank))

    def _where(self, rank: int) -> str:
        progress = self._progress[rank]
        return f"{OPERATIONS[progress.operation]} (its collective number {progress.entered})"

    # -- who failed first ----------------------------------------------------------------------

    def _first(self) -> Failure:
        """The failure that the others follow from, also if that worker has caught its exception.

        Of equal ones, the first that was noticed.
        """
        left = [] if self._left is None or self._left.rank in self._failures else [self._left]
        return min([*self._failures.values(), *left], key=lambda failure: failure.degree)

    def _is_settled(self) -> bool:
        """Whether it is certain enough who failed first."""
        age = time.monotonic() - self._failed_at
        if self._first().degree == CAUSE:
            return age > _SETTLE_S
        known = self._failures.keys() | self._results.keys()
        return age > _GRACE_S or (age > _SETTLE_S and len(known) == len(self._progress))

    def _error(self) -> Exception:
        found = self._first()
        if found.degree > SUSPECT:
            most = max(progress.entered for progress in self._progress.values())
            behind = self._behind(most)
            missed = "did not come to a collective that failed"
            if behind is None:
                behind, missed = self._hindered(found.rank), "held up a collective that failed"
                if behind == found.rank and self._progress[found.rank].operation == JOINING:
                    return not_joined(found)
            if behind != found.rank:
                found = self._looked_at(behind, f"{missed}: worker {found.rank} {found.what}")
        return error_of(found, self._launcher.hosts[found.rank], list(self._output[found.rank]))


def raised(rank: int, described: dict[str, object]) -> Failure:
    """The failure of a worker that reported an error."""
    degree = CONSEQUENCE if described["is_consequence"] else CAUSE
    return Failure(degree, rank, str(described["what"]), str(described["traceback"]))


def ended(rank: int, code: int, stack: str, *, is_inside: bool) -> Failure:
    """The failure of a worker whose process is gone; ``is_inside`` a collective."""
    name = None
    if code < 0:
        name = describe_exit(code).rpartition(" ")[2]
        what = f"was killed by {name}"
        # The engines of some frameworks abort when another worker is gone.
        degree = SUSPECT if is_inside and -code in _CRASHES else CAUSE
    else:
        what = f"ended with {describe_exit(code)} before it returned"
        degree = SUSPECT if is_inside else CAUSE
    return Failure(degree, rank, what, stack, name)


def error_of(failure: Failure, host: str, output: Sequence[str]) -> WorkerFailedError:
    """The error that ``run`` raises."""
    message = f"worker {failure.rank} on {host} {failure.what.rstrip('.')}."
    if failure.traceback:
        message += "\n" + _indented(failure.traceback)
    if output:
        message += "\nIts last lines:\n" + _indented("\n".join(output))
    return WorkerFailedError(
        message,
        rank=failure.rank,
        host=host,
        traceback=failure.traceback,
        signal=failure.signal,
        output=output,
    )


def not_joined(failure: Failure) -> WorkerFailedError:
    """The error if workers could not join their group, though all of them run and came to it."""
    return WorkerFailedError(
        f"the workers could not join their group, though all of them came: worker {failure.rank} "
        f"{failure.what.rstrip('.')}. Perhaps another program connected to a port that the "
        f"framework had opened for them: run again.\n{_indented(failure.traceback)}",
        rank=-1,
        host="",
        traceback=failure.traceback,
        signal=None,
        output=[],
    )


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.rstrip().splitlines())


_HANDLERS: Mapping[type, Any] = {
    Frame: Supervisor._message,
    Output: Supervisor._printed,
    Progress: Supervisor._moved,
    Ended: Supervisor._gone,
}
