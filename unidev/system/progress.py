"""Progress of long operations, on stderr: the one format for all of unidev."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING

from unidev.system.wording import one_line, seconds_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TextIO

    from rich.progress import Progress

BEAT_S = 2.0
"""The first report."""
FRAME_S = 0.2
"""In a terminal, each update after it."""
LINE_S = 10.0
"""Where there is no terminal, each report after the first is a line of its own."""


@contextlib.contextmanager
def progress(title: str, *, beyond_capture: bool = False) -> Iterator[Callable[[str], None]]:
    """Report that ``title`` is still running, and at the end how long it took.

    Prints nothing if the block takes less than two seconds. In a terminal one line is updated,
    where rich is installed; a pipe or a log gets a line every ten seconds. The thread that prints
    ends with the block, also after an exception or Ctrl-C.

    With ``beyond_capture`` a user of pytest sees it, too, although pytest keeps what tests print.

    Yields a function that sets the current step, which replaces the title. The end of a block that
    sets steps is not reported, because it reports its own results.
    """
    reporter = _Reporter(title, _stderr(beyond_capture=beyond_capture))
    reporter.start()
    state = "failed"
    try:
        yield reporter.take_step
        state = f"done in {seconds_text(reporter.seconds())}"
    except KeyboardInterrupt:
        state = "interrupted"
        raise
    finally:
        reporter.end()
        if reporter.has_reported and reporter.step == title:
            reporter.write_line(state)


class _Reporter(threading.Thread):
    """Reports the current step from time to time until ``end`` is called."""

    def __init__(self, title: str, stderr: Callable[[], TextIO | None]) -> None:
        super().__init__(name="unidev-progress", daemon=True)
        self.step = title
        self.has_reported = False
        self._stderr = stderr
        self._is_line_open = False
        self._began = time.monotonic()
        self._ended = threading.Event()

    def run(self) -> None:
        if self._ended.wait(BEAT_S):
            return
        self.has_reported = True
        terminal = _terminal(self._stderr())
        if terminal is None:
            self.write_line(self._elapsed())
            while not self._ended.wait(LINE_S):
                self.write_line(self._elapsed())
        else:
            # Work must not fail because the program has closed its stderr, or its reader is gone.
            with contextlib.suppress(OSError, ValueError, AttributeError):
                task = terminal.add_task(self._line(), elapsed=self._elapsed())
                with terminal:
                    while not self._ended.wait(FRAME_S):
                        terminal.update(task, description=self._line(), elapsed=self._elapsed())
                        terminal.refresh()

    def _line(self) -> str:
        return f"unidev: {one_line(self.step)}"

    def _elapsed(self) -> str:
        return f"{self.seconds():.0f} s"

    def seconds(self) -> float:
        return time.monotonic() - self._began

    def take_step(self, step: str) -> None:
        self.step = step

    def write_line(self, state: str) -> None:
        stream = self._stderr()
        if stream is not None:
            with contextlib.suppress(OSError, ValueError, AttributeError):  # as above
                stream.write(f"{self._line()}: {state}\n")
                stream.flush()

    def end(self) -> None:
        self._ended.set()
        self.join()


def _stderr(*, beyond_capture: bool) -> Callable[[], TextIO | None]:
    """What gives the stream to write to, when it is needed: a program may replace its stderr."""
    plugin = sys.modules.get("unidev_pytest") if beyond_capture else None
    if plugin is None:
        return lambda: sys.stderr
    kept: Callable[[], TextIO | None] = plugin.stderr
    return lambda: kept() or sys.stderr


def _terminal(stream: TextIO | None) -> Progress | None:
    """One line of ``stream`` that is updated in place; None where that is not possible."""
    try:
        if stream is None or not stream.isatty() or find_spec("rich") is None:
            return None
    except (OSError, ValueError, AttributeError):  # closed, or not a file
        return None
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn
    from rich.table import Column

    console = Console(file=stream)
    if not console.is_terminal or console.is_dumb_terminal:
        return None
    # The seconds stay visible beside a long step, which must not wrap: it could not be replaced.
    step = Column(no_wrap=True, overflow="ellipsis", ratio=1)
    return Progress(
        SpinnerColumn(), TextColumn("{task.description}", markup=False, table_column=step),
        TextColumn("{task.fields[elapsed]}"), console=console, expand=True, transient=True,
        auto_refresh=False, redirect_stdout=False, redirect_stderr=False,
    )  # fmt: skip
