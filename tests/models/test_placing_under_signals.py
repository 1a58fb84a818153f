"""Ctrl-C while a model is placed: it is all there, or all where it was."""

from __future__ import annotations

import signal

from turns import in_a_thread

from unidev.system.interrupts import held_interrupts


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
            in_a_thread(held_interrupts().__enter__)
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)
