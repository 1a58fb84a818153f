"""Judges a launcher: runs each check in a process of its own, and looks for what it leaves."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from unidev.system.child_processes import ChildProcess, describe_exit
from unidev_conformance.kit.processes.leftovers import nothing_left
from unidev_conformance.launching.checks import CHECKS, KILLED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from unidev.system.child_processes import Interruption
    from unidev_conformance.launching.checks import Subject

_SHORT = "/tmp"  # noqa: S108  a socket's path, as of Ray's, may have 107 characters
_DROPPED = ("UNIDEV_BACKEND", "UNIDEV_SIMULATE")
_TEMPORARY = "t"
_TAIL_LINES = 40


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The result of one check."""

    check: str
    problem: str | None
    """None if it passes."""
    seconds: float
    is_missing: bool = False
    """Whether it has no result, as it was interrupted."""


def summary(check: str) -> str:
    """The promise that the check proves, in one sentence."""
    return (CHECKS[check].__doc__ or "").partition("\n")[0]


def judged(
    subject: Subject, checks: Sequence[str], timeout_s: float, stop: Interruption
) -> Iterator[Judgement]:
    """The result of each check, one after the other."""
    for check in checks:
        began = time.monotonic()
        problem = None if stop else _problem(subject, check, timeout_s, stop)
        seconds = round(time.monotonic() - began, 3)
        yield Judgement(check=check, problem=problem, seconds=seconds, is_missing=bool(stop))


def _problem(subject: Subject, check: str, timeout_s: float, stop: Interruption) -> str | None:
    """What is wrong, or None; afterwards, nothing of the check is left."""
    top = _SHORT if Path(_SHORT).is_dir() else None
    with tempfile.TemporaryDirectory(prefix="ul-", dir=top, ignore_cleanup_errors=True) as name:
        temporary = Path(name) / _TEMPORARY
        temporary.mkdir()
        found = left = None
        try:
            with nothing_left():
                found = _failure(subject, check, Path(name), timeout_s, stop)
        except AssertionError as error:
            left = str(error)
        files = sorted(path.name for path in temporary.iterdir())
        if files and check not in KILLED and found is None:
            left = left or f"in the temporary folder there is still: {', '.join(files)}"
    return "\n".join(filter(None, [found, left])) or None


def _failure(
    subject: Subject, check: str, folder: Path, timeout_s: float, stop: Interruption
) -> str | None:
    """How the check's process failed, or None."""
    words = [check, subject.launcher, subject.backend, *filter(None, [subject.address])]
    environment = {
        **{key: text for key, text in os.environ.items() if key not in _DROPPED},
        "TMPDIR": str(folder / _TEMPORARY), "PYTHONFAULTHANDLER": "1",
    }  # fmt: skip
    command = [sys.executable, "-m", "unidev_conformance.launching.child", *words]
    with ChildProcess(command, folder / "c", environment=environment) as child:
        if not child.wait(timeout_s, stop):
            child.ask_for_traceback()
            return f"no end within {timeout_s:g} s.\n{child.tail(_TAIL_LINES)}"
        expected = -signal.SIGKILL if check in KILLED else 0
        if child.exit_code == expected:
            return None
        said = child.tail(_TAIL_LINES)
        return said if child.exit_code == 1 else f"{describe_exit(child.exit_code)}.\n{said}"
