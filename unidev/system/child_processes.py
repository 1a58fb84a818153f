"""Child processes that leave nothing behind: each leads its own group, which ends as one.

Used to query or judge a framework, because frameworks may crash, hang and print anything.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unidev.system.settings import CACHE
from unidev.system.wording import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from typing_extensions import Self

TAIL_LINES = 12
LOOK_S = 0.02
"""Seconds between two looks at a child."""
_TAIL_BYTES = 64 * 1024
_FATAL = "Fatal Python error"


class Interruption:
    """Whether a signal requested a stop. Polled, so that no half-started child is forgotten."""

    signal: int | None = None

    def __bool__(self) -> bool:
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        """The exit code that a shell expects after a signal: 130 for Ctrl-C."""
        return 128 + (self.signal or signal.SIGINT)


@contextlib.contextmanager
def noticing_interruption() -> Iterator[Interruption]:
    """In the block, Ctrl-C and the like are noted instead of raised; the block must poll them."""
    noted = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield noted  # only the main thread receives signals and may handle them
        return

    def note(number: int, _frame: object) -> None:
        noted.signal = number

    numbers = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP"):
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, note) for number in numbers}
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)


class ChildProcess:
    """A child, the leader of a new group; as a context manager, it has ended after the block.

    Its output goes to files, not to pipes: a grandchild that keeps a pipe open would make us wait
    for its end.
    """

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        *,
        environment: Mapping[str, str],
        logs: Path | None = None,
    ) -> None:
        """Start ``command`` in ``folder``, which is made; its output goes there, or to ``logs``."""
        folder.mkdir(parents=True, exist_ok=True)
        variables = {**environment, "PYTHONPATH": import_path(environment.get("PYTHONPATH", ""))}
        if variables.get(CACHE):  # which may be relative to this process's folder
            variables[CACHE] = str(Path(variables[CACHE]).expanduser().absolute())
        self._out, self._err = ((logs or folder) / name for name in ("out.txt", "err.txt"))
        self.began = time.monotonic()
        with self._out.open("wb") as stdout, self._err.open("wb") as stderr:
            self._process = subprocess.Popen(  # noqa: S603  a list of arguments
                list(command),
                cwd=folder,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,  # no effect on Windows, which alone has the flag
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def is_running(self) -> bool:
        """Whether it has not ended by itself, and was not ended."""
        return self._process.poll() is None

    def wait(self, limit_s: float, stop: Interruption | None = None) -> bool:
        """Wait until it has ended; False at the limit, and once ``stop`` is set."""
        until = time.monotonic() + limit_s
        while self.is_running():
            if stop or time.monotonic() > until:
                return False
            time.sleep(LOOK_S)
        return True

    def end(self) -> None:
        """End it, if it is still running, and every process that it started."""
        end_group(self._process)

    def ask_for_traceback(self) -> None:
        """Make a hanging child print its traceback, if its faulthandler is on; also ends it."""
        ask_for_traceback(self._process)

    @property
    def exit_code(self) -> int:
        """The exit code of a child that has ended; below zero, the signal that killed it."""
        code = self._process.poll()
        assert code is not None
        return code

    @property
    def out(self) -> str:
        """All that it has printed on stdout."""
        return self._out.read_text(encoding="utf-8", errors="replace")

    @property
    def err(self) -> str:
        """All that it has printed on stderr."""
        return self._err.read_text(encoding="utf-8", errors="replace")

    @property
    def err_size(self) -> int:
        """The number of bytes that it has printed on stderr."""
        return self._err.stat().st_size

    def tail(self, lines: int = TAIL_LINES) -> str:
        """The last lines of stderr, or else of stdout, or Python's report of its fatal error."""
        return tail(self._err, self._out, lines=lines)


def import_path(given: str) -> str:
    """``PYTHONPATH`` for a child in another folder that must find the same modules as this process.

    Relative entries would point elsewhere there; and ``python -m unidev`` finds an author's module
    in the current folder, so the child must too.
    """
    entries = [str(Path(entry).absolute()) for entry in given.split(os.pathsep) if entry]
    here = str(Path.cwd())
    if ("" in sys.path or here in sys.path) and here not in entries:
        entries.append(here)
    return os.pathsep.join(entries)


def end_group(process: Any) -> None:
    """End the process, if it is still running, and every process that it started."""
    if sys.platform == "win32":
        tree = ["taskkill", "/F", "/T", "/PID", str(process.pid)]
        subprocess.run(tree, check=False, capture_output=True)  # noqa: S603
        process.wait()
    else:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # no process is left in it
            os.killpg(process.pid, signal.SIGKILL)
        # Not `wait`: it waits for ever for its lock, which Ctrl-C in `poll` may leave locked
        # (between `acquire` and `try`; seen in Python 3.11).
        if process.returncode is None:
            with contextlib.suppress(ChildProcessError):  # another thread has waited
                _, status = os.waitpid(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)


def ask_for_traceback(process: Any, wait_s: float = 2.0) -> None:
    """Make a hanging process print its traceback, if its faulthandler is on; this also ends it."""
    if sys.platform != "win32":
        with contextlib.suppress(subprocess.TimeoutExpired, ProcessLookupError):
            os.kill(process.pid, signal.SIGABRT)
            process.wait(wait_s)


def describe_exit(code: int) -> str:
    """``exit code 3``, or the signal's name: ``killed by SIGSEGV``."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def tail(*paths: Path, lines: int = TAIL_LINES) -> str:
    """The last lines of the first non-empty file, or Python's report of its fatal error in it."""
    for path in paths:
        text = _end_of(path)
        if text:
            found = [one_line(line.rstrip()) for line in text.splitlines() if line.strip()]
            fatal = [i for i, line in enumerate(found) if line.startswith(_FATAL)]
            kept = found[fatal[-1] :][:lines] if fatal else found[-lines:]
            return "\n".join(kept)
    return ""


def _end_of(path: Path) -> str:
    if not path.exists():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        return file.read().decode(errors="replace").strip()
