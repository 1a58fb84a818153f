"""Progress of long operations, on stderr: the one format for all of unidev."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from typing import TYPE_CHECKING

from unidev.support.wording import one_line, seconds_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BEAT_S = 2.0


@contextlib.contextmanager
def progress(title: str) -> Iterator[Callable[[str], None]]:
    """Report every two seconds that ``title`` is still running, and at the end how long it took.

    Prints nothing if the block takes less than two seconds. Complete lines on stderr read the same
    in a terminal, a pipe and a log. The thread that prints them ends with the block, also after an
    exception or Ctrl-C.

    Yields a function that sets the current step, which replaces the title. The end of a block that
    sets steps is not reported, because it reports its own results.
    """
    reporter = _Reporter(title)
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
            reporter.report(state)


class _Reporter(threading.Thread):
    """Prints the current step every two seconds until ``end`` is called."""

    def __init__(self, title: str) -> None:
        super().__init__(name="unidev-progress", daemon=True)
        self.step = title
        self.has_reported = False
        self._began = time.monotonic()
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(BEAT_S):
            self.report(f"{self.seconds():.0f} s")

    def seconds(self) -> float:
        return time.monotonic() - self._began

    def take_step(self, step: str) -> None:
        self.step = step

    def report(self, state: str) -> None:
        self.has_reported = True
        # Work must not fail because the program has closed its stderr, or its reader is gone.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            sys.stderr.write(f"unidev: {one_line(self.step)}: {state}\n")
            sys.stderr.flush()

    def end(self) -> None:
        self._ended.set()
        self.join()
