"""One child: a pytest that runs checks in an environment that only the suite controls.

Otherwise the backend author's ``pytest.ini``, ``conftest.py``, ``PYTEST_ADDOPTS`` and pytest
plugins would apply: ``addopts = -k x`` alone deselects everything.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unidev.system import child_processes
from unidev.system.progress import LINE_S
from unidev.system.settings import DETAILS, SIMULATE, SIMULATE_AS
from unidev_conformance.events import EventReader, Finish, Session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from unidev_conformance.events import Event

CHECKS_PACKAGE = "unidev_conformance.checks"
PLUGINS = ("-p", "unidev_pytest", "-p", "unidev_conformance.pytest_plugin")

START_LIMIT_S = 900.0
"""The maximum time until a child's first event: a simulator may be built then."""
EXIT_LIMIT_S = 15.0
"""The maximum time for a child to end after its last event."""
_OURS = "unidev: "
"""How lines of unidev's own progress begin."""

_DROPPED = ("PYTHONOPTIMIZE", "PYTHONINSPECT", "PYTHONWARNINGS", "PYTHONSTARTUP", "UNIDEV_BACKEND")
"""``-O`` would remove the checks' asserts; the others change what a check sees."""

_INI = """\
[pytest]
addopts =
xfail_strict = true
"""


@dataclass(frozen=True, kw_only=True)
class Order:
    """One child's task: the backend, the profile, the simulated GPUs, and which checks."""

    backend: str
    profile: str
    simulated: int
    simulate_as: str | None = None
    """The framework's name for the simulated GPUs, such as ``cuda``."""
    only: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a child ended."""

    how: str
    """``finished``, ``died``, ``timed-out`` or ``interrupted``."""
    exit_code: int
    last_lines: str

    @property
    def described(self) -> str:
        """The exit code or signal, and the last lines of its output."""
        said = f"\n{self.last_lines}" if self.last_lines else " It printed nothing."
        return f"{child_processes.describe_exit(self.exit_code)}.{said}"


class Child:
    """A running child in its own folder."""

    def __init__(self, order: Order, folder: Path) -> None:
        empty = folder / "cwd"
        empty.mkdir(parents=True)
        ini = folder / "neutral.ini"
        ini.write_text(_INI, encoding="utf-8")
        self._said: str | None = None
        self._said_at = 0
        events = folder / "events.jsonl"
        self._reader = EventReader(events)
        given = {**sharing(order.backend), **os.environ}
        self._process = child_processes.ChildProcess(
            command(order, ini=ini, root=empty, events=events),
            empty,
            environment=environment(order.simulated, given, folder, order.simulate_as),
            logs=folder,
        )

    def said(self) -> str | None:
        """The last line of unidev's own progress on the child's stderr, such as of a build."""
        size = self._process.err_size
        if size != self._said_at:
            self._said_at = size
            line = self._process.tail(lines=1)
            self._said = line[len(_OURS) :] if line.startswith(_OURS) else None
        return self._said

    def watch(
        self,
        on_event: Callable[[Event | None], None],
        *,
        timeout_s: float,
        should_stop: Callable[[], bool],
    ) -> Ending:
        """Pass every event to ``on_event`` until the child has ended or must be ended.

        ``on_event`` receives None from time to time while there are no events, to show progress.
        """
        self._on_event, self._timeout_s = on_event, timeout_s
        self._began = self._heard = time.monotonic()
        self._has_begun = self._has_finished = False
        self._printed = 0
        try:
            how = self._until_end(should_stop)
        finally:
            self._process.end()
        lines = self._process.tail()
        return Ending(how=how, exit_code=self._process.exit_code, last_lines=lines)

    def _until_end(self, should_stop: Callable[[], bool]) -> str:
        while True:
            has_ended = not self._process.is_running()  # first: its output is then complete
            self._listen()
            if has_ended:
                return "finished" if self._has_finished else "died"
            if should_stop():
                return "interrupted"
            if self._is_late():
                if self._has_finished:
                    return "finished"
                self._process.ask_for_traceback()
                self._listen()
                return "timed-out"
            self._on_event(None)
            time.sleep(child_processes.LOOK_S)

    def _listen(self) -> None:
        for event in self._reader.read():
            self._heard = time.monotonic()
            self._has_begun = self._has_begun or isinstance(event, Session)
            self._has_finished = self._has_finished or isinstance(event, Finish)
            self._on_event(event)

    def _is_late(self) -> bool:
        now = time.monotonic()
        if self._has_finished:
            return now - self._heard > min(EXIT_LIMIT_S, self._timeout_s)
        if not self._has_begun:
            # A simulator that is being built reports on stderr every ten: a sign of life.
            size = self._process.err_size
            if size != self._printed:
                self._printed, self._heard = size, now
            if now - self._began > max(START_LIMIT_S, self._timeout_s):
                return True
        # unidev's own progress keeps its own pace.
        patience_s = 3 * LINE_S if not self._has_begun and self.said() else 0.0
        return now - self._heard > max(self._timeout_s, patience_s)


def command(order: Order, *, ini: Path, root: Path, events: Path) -> Sequence[str]:
    """The child's command line.

    Tracebacks are Python's own: to quote sources, pytest parses the file of each frame, also for
    what is unsupported, which took a fifth of the time of NumPy's profile ``train``.
    """
    return [
        sys.executable, "-m", "pytest", "-c", str(ini), "--rootdir", str(root),
        "--noconftest", "-p", "no:cacheprovider", *PLUGINS,
        "--tb", "native", "--pyargs", CHECKS_PACKAGE,
        "--unidev-backend", order.backend, "--unidev-profile", order.profile,
        "--unidev-events", str(events),
        *(["--unidev-only", ",".join(order.only)] if order.only is not None else []),
        *(["--unidev-exclude", ",".join(order.exclude)] if order.exclude else []),
    ]  # fmt: skip


def sharing(backend: str) -> Mapping[str, str]:
    """Variables that let the judge and the processes that checks start use one GPU side by side."""
    from unidev.backends.discovery import backend_spec
    from unidev.errors import BackendError

    try:
        return backend_spec(backend).sharing
    except BackendError:  # the child reports it
        return {}


def environment(
    simulated: int, given: Mapping[str, str], folder: Path, simulate_as: str | None = None
) -> dict[str, str]:
    """``given`` without variables that would change how pytest or the checks run.

    What Hypothesis notes goes to ``folder``.
    """
    kept = {
        name: value
        for name, value in given.items()
        if not name.startswith("PYTEST_") and name not in _DROPPED
    }
    kept["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # no plugin reorders, retries or spreads checks
    kept["PYTHONFAULTHANDLER"] = "1"
    kept["HYPOTHESIS_STORAGE_DIRECTORY"] = str(folder / "notes")
    kept[SIMULATE] = str(simulated)
    if not simulated:
        for name in DETAILS:  # what they say of simulated GPUs would be an error
            kept.pop(name, None)
    elif simulate_as is not None:
        kept[SIMULATE_AS] = simulate_as
    return kept
