"""Ctrl-C while a model is placed: it is all there, or all where it was."""

from __future__ import annotations

import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

import unidev
from unidev.system.interrupts import held_interrupts

if TYPE_CHECKING:
    from types import FrameType

FILES = ("contract/models.py", "numpy_backend/models.py")


class Interrupter:
    """Ctrl-C before the ``number``-th line that runs in these files; the rest of it is let be."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self, frame: FrameType, event: str, argument: object) -> Any:
        if not frame.f_code.co_filename.endswith(FILES):
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                signal.raise_signal(signal.SIGINT)
        return self


def interrupted(number: int) -> bool:
    """Whether there was a line of that number; whatever happens, the model is whole."""
    model = {"a": unidev.ones(2), "b": [unidev.zeros(3)]}
    before = [model["a"], model["b"][0]]
    interrupter = Interrupter(number)
    sys.settrace(interrupter)
    try:
        unidev.place(model, "gpu:1")
    except KeyboardInterrupt:
        now = [model["a"], model["b"][0]]
        assert all(x is old for x, old in zip(now, before, strict=True)) or all(
            unidev.device_of(x) is unidev.gpu(1) for x in now
        )
        return True
    finally:
        sys.settrace(None)
    assert unidev.device_of(model) is unidev.gpu(1)
    return False


def test_ctrl_c_at_any_line_leaves_the_model_whole(two_gpus: None) -> None:
    count = 1
    while interrupted(count):
        count += 1
    assert count > 30


def test_each_of_several_held_signals_reaches_its_handler() -> None:
    numbers, noted = (signal.SIGALRM, signal.SIGUSR1), []
    before = [signal.signal(each, lambda number, _frame: noted.append(number)) for each in numbers]
    try:
        with held_interrupts():
            for number in numbers:
                signal.raise_signal(number)
            assert noted == []
        assert sorted(noted) == sorted(numbers)
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def test_held_interrupts_go_to_the_programs_own_handler_and_leave_other_threads_alone() -> None:
    noted: list[str] = []
    before = signal.signal(signal.SIGINT, lambda *_: noted.append("own"))
    try:
        with held_interrupts() as outer, held_interrupts() as inner:
            signal.raise_signal(signal.SIGINT)
            inner.check()
            assert noted == []
            outer.check()
            assert noted == ["own"]
            outer.check()
            signal.raise_signal(signal.SIGINT)
            assert noted == ["own"]
        assert noted == ["own", "own"]
        handler = signal.getsignal(signal.SIGINT)
        with held_interrupts():
            thread = threading.Thread(target=held_interrupts().__enter__)
            thread.start()
            thread.join()
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)
