"""Progress of what takes long, on stderr: the one shape for all of unidev."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from typing import TYPE_CHECKING

from unidev.support.wording import seconds_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BEAT_S = 2.0


@contextlib.contextmanager
def progress(title: str) -> Iterator[Callable[[str], None]]:
    """Report every two seconds that ``title`` is still going on, and then how long it took.

    Nothing is printed unless it takes two seconds. Whole lines on stderr read the same in a
    terminal, a pipe and a log. The thread that prints them ends with the block, also after an
    exception and after Ctrl-C.

    Gives a function that takes the step that is going on, which then stands in place of the title.
    A block that reports steps has results of its own, so that its end is not reported.
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
    """Prints the step that is going on, every two seconds until it is ended."""

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
        # Work must not fail because a program has closed its stderr, or its reader has gone.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            sys.stderr.write(f"unidev: {self.step}: {state}\n")
            sys.stderr.flush()

    def end(self) -> None:
        self._ended.set()
        self.join()
