"""The checks of a launcher; each runs in a process of its own, which must leave nothing."""

from __future__ import annotations

import io
import os
import signal
import sys
import tempfile
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import unidev
from unidev_conformance.launching import samples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LATE_S = 10.0
"""How long workers wait in a check in which one does not come."""
_VARIABLE = "UNIDEV_TORCHRUN_TIMEOUT"
"""One of unidev's own, which means nothing to the workers of ``run``."""


@dataclass(frozen=True)
class Subject:
    """The launcher under judgement, and the backend of its workers."""

    launcher: str
    backend: str
    address: str | None = None

    def run(self, function: Callable[..., Any], *args: Any, **options: Any) -> list[Any]:
        """``unidev.run`` with this launcher, on two workers."""
        given: dict[str, Any] = {"workers": 2, "gpus_per_worker": 0, "timeout": 60.0, **options}
        return unidev.run(
            function, *args, launcher=self.launcher, backend=self.backend, address=self.address,
            **given,
        )  # fmt: skip


def ranks(subject: Subject) -> None:
    """Each worker has a rank and the size, and results come in the order of ranks."""
    for workers in (1, 3):
        found = subject.run(samples.rank_and_size, workers=workers)
        expected = [(rank, workers) for rank in range(workers)]
        assert found == expected, f"{workers} workers returned {found}"


def values(subject: Subject) -> None:
    """Arguments and results travel whole, also large ones, and a second run is like the first."""
    large = np.arange(samples.LARGE, dtype=np.float64)
    for attempt in ("first", "second"):
        for found in subject.run(samples.echo, {"a": [1, "\u00e9"]}, large):
            assert found[0] == {"a": [1, "\u00e9"]}, f"the {attempt} run returned {found[0]}"
            assert (found[1] == large).all(), f"the {attempt} run returned other numbers"


def exchanges(subject: Subject) -> None:
    """Workers exchange, by memory that they share and by messages, and get the same values."""
    sums, total = [3.0 * k + 3.0 for k in range(50)], [3.0, 3.0 * samples.LARGE]
    expected = {
        "sums": sums, "gathered": [0, 1, 2], "large sum": total,
        "large": [2.0, samples.LARGE + 1.0],
    }  # fmt: skip
    for by_messages in (False, True):
        how = "by messages" if by_messages else "as they are placed"
        for rank, found in enumerate(
            subject.run(_exchanged_by_messages if by_messages else _exchanged, workers=3)
        ):
            assert found == expected, f"{how}, worker {rank} has {found}, not {expected}"


def differences(subject: Subject) -> None:
    """A collective that workers do not call alike is an error on each, and the group goes on."""
    for rank, found in enumerate(subject.run(samples.differing)):
        assert "worker 0 has" in found, f"worker {rank}: {found}"
        assert "but worker 1 has" in found, f"worker {rank}: {found}"


def raised(subject: Subject) -> None:
    """An exception in a worker arrives with its rank and traceback."""
    error = _failure(subject, "raises")
    assert "raised KeyError: 'the key that is not there'" in str(error), f"the error is: {error}"
    assert "in the_one_that_fails" in error.traceback, f"the traceback is: {error.traceback!r}"


def killed(subject: Subject) -> None:
    """A worker that is killed or exits is named, with the signal or the exit code."""
    error = _failure(subject, "SIGKILL")
    assert error.signal == "SIGKILL", f"the signal is {error.signal}: {error}"
    error = _failure(subject, "exits")
    assert "exit code 7" in str(error), f"the error is: {error}"


def stopped(subject: Subject) -> None:
    """A worker that is stopped is named so, and ended; one that does not come, with its stack."""
    error = _failure(subject, "SIGSTOP", timeout=_LATE_S)
    assert "it is stopped (SIGSTOP)" in str(error), f"the error is: {error}"
    error = _failure(subject, "sleeps", timeout=_LATE_S)
    assert "in the_one_that_fails" in error.traceback, f"the stack is: {error.traceback!r}"


def output(subject: Subject) -> None:
    """What workers print is shown while they run, line by line and in order, with their ranks."""
    with tempfile.TemporaryDirectory() as folder, _shown() as (out, err):
        flag = Path(folder) / "seen"
        out.seen[f"[1] {samples.WAITING}\n"] = flag.touch
        subject.run(samples.print_lines, str(flag))
    lines = [f"line {number} \u00e9" for number in range(samples.LINES)]
    for rank in (0, 1):
        start = f"[{rank}] "
        own = [line[len(start) :] for line in out.lines() if line.startswith(start)]
        assert own == [*lines, samples.WAITING, "no end"], f"worker {rank}: {own[-3:]}"
        assert f"{start}on stderr" in err.lines(), f"of stderr: {err.lines()}"


def environment(subject: Subject) -> None:
    """The variables of unidev, and its backend, are in each worker's environment."""
    os.environ[_VARIABLE] = "777"
    names = (_VARIABLE, "UNIDEV_BACKEND")
    for rank, found in enumerate(subject.run(samples.environment, names)):
        expected = {_VARIABLE: "777", "UNIDEV_BACKEND": subject.backend}
        assert found == expected, f"worker {rank} has {found}"


def gpus(subject: Subject) -> None:
    """Each worker sees its own GPUs, which are simulated here."""
    os.environ["UNIDEV_SIMULATE"] = "2"
    found = subject.run(samples.gpus, gpus_per_worker=1)
    assert found == [(["gpu:0"], "0"), (["gpu:0"], "1")], f"the workers see {found}"


def children(subject: Subject) -> None:
    """What workers have started ends with the run."""
    subject.run(samples.start_children)


def interrupted(subject: Subject) -> None:
    """Ctrl-C ends the workers and what they have started, and reaches the caller of run."""
    try:
        with _shown() as (out, _):
            out.seen[f"[0] {samples.WAITING}\n"] = lambda: os.kill(os.getpid(), signal.SIGINT)
            subject.run(samples.with_children)
    except KeyboardInterrupt:
        return
    raise AssertionError("`run` returned")


def abandoned(subject: Subject) -> None:
    """If the process that called run is killed, its workers end with all they have started."""
    with _shown() as (out, _):
        out.seen[f"[0] {samples.WAITING}\n"] = lambda: os.kill(os.getpid(), signal.SIGKILL)
        subject.run(samples.with_children)


CHECKS: dict[str, Callable[[Subject], None]] = {
    each.__name__: each
    for each in (
        ranks, values, exchanges, differences, raised, killed, stopped, output, environment, gpus,
        children, interrupted, abandoned,
    )
}  # fmt: skip
KILLED = {abandoned.__name__}
"""Those whose process is killed: that is how they pass, and its folders are swept later."""


# -- inside ----------------------------------------------------------------------------------------


def _exchanged() -> dict[str, Any]:
    return samples.exchanged(by_messages=False)


def _exchanged_by_messages() -> dict[str, Any]:
    return samples.exchanged(by_messages=True)


def _failure(subject: Subject, how: str, **options: Any) -> unidev.WorkerFailedError:
    """The error of a run in which worker 1 fails."""
    try:
        subject.run(samples.the_one_that_fails, how, **options)
    except unidev.WorkerFailedError as error:
        found = error
    else:
        raise AssertionError("`run` raised nothing")
    assert found.rank == 1, f"worker {found.rank} is named: {found}"
    return found


class _Shown(io.StringIO):
    """What is printed; the first time that some text is, a function is called."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[str, Callable[[], object]] = {}

    def flush(self) -> None:
        for text in [each for each in self.seen if each in self.getvalue()]:
            self.seen.pop(text)()

    def lines(self) -> list[str]:
        return self.getvalue().splitlines()


@contextmanager
def _shown() -> Iterator[tuple[_Shown, _Shown]]:
    out, err = _Shown(), _Shown()
    try:
        with redirect_stdout(out), redirect_stderr(err):
            yield out, err
    finally:
        sys.stderr.write(err.getvalue())
