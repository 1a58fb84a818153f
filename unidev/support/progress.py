"""Saying on stderr what takes long."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

BEAT_S = 2.0


@contextlib.contextmanager
def announced(what: str, *, at_once: bool = True) -> Iterator[None]:
    """Say ``what`` is being done, every two seconds that it still is, and how long it took.

    Whole lines on stderr, so that it reads the same in a terminal, a pipe and a log. What is mostly
    quick is not announced ``at_once``: of that nothing is said unless it takes two seconds.
    """
    started = time.monotonic()
    done = threading.Event()
    spoken = False

    def say(state: str) -> None:
        nonlocal spoken
        spoken = True
        print(f"unidev: {what}: {state}", file=sys.stderr, flush=True)  # noqa: T201  progress

    def beat() -> None:
        while not done.wait(BEAT_S):
            say(f"{time.monotonic() - started:.0f} s")

    if at_once:
        say("started")
    thread = threading.Thread(target=beat, name="unidev-progress", daemon=True)
    thread.start()
    try:
        yield
    except BaseException:
        done.set()
        thread.join()
        if spoken:
            say("failed")
        raise
    done.set()
    thread.join()
    if spoken:
        say(f"done in {time.monotonic() - started:.1f} s")
