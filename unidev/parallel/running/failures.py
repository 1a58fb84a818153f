"""Which worker failed first: broken collectives of the others are consequences."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, NamedTuple

from unidev.errors import WorkerFailedError
from unidev.system.child_processes import describe_exit

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def first(failures: Sequence[Failure]) -> Failure:
    """The one that the others follow from; of equal ones, the first that was noticed."""
    return min(failures, key=lambda failure: failure.degree)


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
