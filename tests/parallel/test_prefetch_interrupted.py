"""Ctrl-C while ``prefetch`` reads ahead: it arrives, and no thread is left."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from reading import reading_threads

import unidev
from unidev.parallel.batches import prefetch_thread

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.usefixtures("no_thread_is_left")


def wait_until_the_main_thread_joins() -> None:
    main = threading.main_thread().ident
    assert main is not None
    while True:
        frame = sys._current_frames()[main]
        if any(each.f_code.co_name == "join" for each, _ in traceback.walk_stack(frame)):
            return
        time.sleep(0.001)  # nothing tells that another thread waits in join: its stack is looked at


class Interrupting:
    """Batches; Ctrl-C is pressed while the loop is being left."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.is_left, self.may_end = threading.Event(), threading.Event()

    def __iter__(self) -> Iterator[Any]:
        yield np.zeros(1)
        self.is_left.wait()
        wait_until_the_main_thread_joins()
        for _ in range(self.times):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.001)  # Linux makes one of equal signals that are pending
        self.may_end.wait()
        yield np.ones(1)

    def leave(self, how: str) -> None:
        batches = iter(unidev.prefetch(self, "cpu"))
        next(batches)
        self.is_left.set()
        if how == "close":
            batches.close()  # type: ignore[attr-defined]
        del batches
        pytest.fail("Ctrl-C was lost")


@pytest.mark.parametrize("times", [1, 20])
@pytest.mark.parametrize("how", ["break", "close"])
def test_ctrl_c_while_the_loop_is_left_arrives_after_the_thread_has_ended(
    times: int, how: str
) -> None:
    loader = Interrupting(times)
    loader.may_end.set()
    with pytest.raises(KeyboardInterrupt):
        loader.leave(how)
    assert reading_threads() == []


def test_ctrl_c_while_the_thread_is_started_leaves_none(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        iter(unidev.prefetch(itertools.repeat(np.zeros(1)), "cpu"))
    assert reading_threads() == []
    assert caught.tb is not None  # it keeps the object that the thread reads for


def test_ctrl_c_before_the_next_batch_is_waited_for_leaves_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batches = iter(unidev.prefetch(itertools.repeat(np.zeros(1)), "cpu"))
    own = os.getpid()

    def interrupted() -> int:
        signal.raise_signal(signal.SIGINT)
        return own

    with monkeypatch.context() as patched:
        patched.setattr(prefetch_thread.os, "getpid", interrupted)
        with pytest.raises(KeyboardInterrupt) as caught:
            next(batches)
    assert caught.tb is not None  # it keeps the reader
    assert reading_threads() == []


def test_ctrl_c_ends_the_wait_for_a_loader_that_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefetch_thread, "_PATIENCE_S", 0.05)
    loader = Interrupting(1)
    with pytest.raises(KeyboardInterrupt):
        loader.leave("break")
    (thread,) = reading_threads()
    loader.may_end.set()
    thread.join()
