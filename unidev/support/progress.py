"""Progress of long operations, on stderr: the one format for all of unidev."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from typing import TYPE_CHECKING

from unidev.support.wording import one_line, seconds_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TextIO

BEAT_S = 2.0
"""The first report, and in a terminal each one after it."""
LINE_S = 10.0
"""Where there is no terminal, each report after the first is a line of its own."""


@contextlib.contextmanager
def progress(title: str, *, beyond_capture: bool = False) -> Iterator[Callable[[str], None]]:
    """Report that ``title`` is still running, and at the end how long it took.

    Prints nothing if the block takes less than two seconds. In a terminal one line is updated every
    two seconds; a pipe or a log gets a line every ten. The thread that prints ends with the block,
    also after an exception or Ctrl-C.

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
        wait_s = BEAT_S
        while not self._ended.wait(wait_s):
            state = f"{self.seconds():.0f} s"
            columns = _columns(self._stderr())
            if columns is None:
                self.write_line(state)
                wait_s = LINE_S
            else:
                text = f"unidev: {one_line(self.step)}: {state}"
                # A line that wraps could not be replaced by the next one.
                self._write(f"\r\x1b[K{_shortened(text, columns - 1)}")
                self._is_line_open = True
        if self._is_line_open:
            self._write("\r\x1b[K")

    def seconds(self) -> float:
        return time.monotonic() - self._began

    def take_step(self, step: str) -> None:
        self.step = step

    def write_line(self, state: str) -> None:
        self._write(f"unidev: {one_line(self.step)}: {state}\n")

    def _write(self, text: str) -> None:
        self.has_reported = True
        # Work must not fail because the program has closed its stderr, or its reader is gone.
        stream = self._stderr()
        if stream is not None:
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.write(text)
                stream.flush()

    def end(self) -> None:
        self._ended.set()
        self.join()


def _stderr(*, beyond_capture: bool) -> Callable[[], TextIO | None]:
    """What gives the stream to write to, when it is needed: a program may replace its stderr."""
    plugin = sys.modules.get("unidev_pytest.terminal") if beyond_capture else None
    if plugin is None:
        return lambda: sys.stderr
    kept: Callable[[], TextIO | None] = plugin.stderr
    return lambda: kept() or sys.stderr


def _columns(stream: TextIO | None) -> int | None:
    """The width of the terminal; None where the stream is none."""
    try:
        if stream is None or not stream.isatty():
            return None
        return os.get_terminal_size(stream.fileno()).columns or 80  # 0: it does not say
    except (OSError, ValueError, AttributeError):  # closed, or not a file
        return None


def _shortened(text: str, most: int) -> str:
    """``text`` with its middle left out where it is longer; the end has the seconds."""
    if len(text) <= most:
        return text
    end = min(most // 2, 20)
    return f"{text[: most - end - 1]}…{text[-end:]}"
