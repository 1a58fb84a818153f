"""Who is named, of workers whose news come in an order that real ones seldom have."""

from __future__ import annotations

import pickle
import signal
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import unidev
from unidev.contract import Ended, Event, Frame, Progress
from unidev.parallel.running.supervisor import Supervisor
from unidev.system.host import guarding
from unidev.system.host.board import JOINING
from unidev.system.host.frames import FAILED, PARENT

if TYPE_CHECKING:
    from collections.abc import Sequence


def blamed(*news: Event, stopped: int | None) -> unidev.WorkerFailedError:
    """What a run of two workers ends with after that news, and silence."""
    waiting = [list(news)]
    launcher: Any = SimpleNamespace(
        hosts=("127.0.0.1",) * 2,
        events=lambda timeout_s: waiting.pop() if waiting else (),
        hindrance=lambda rank: "it is stopped (SIGSTOP)" if rank == stopped else None,
        stack_of=lambda rank: f"stack of {rank}",
        send=lambda rank, frame: None,
    )
    with pytest.raises(unidev.WorkerFailedError) as caught:
        Supervisor(launcher, timeout_s=0.1).results()
    return caught.value


def progress(*entered_and_left: tuple[int, int], operation: int = 2) -> Sequence[Event]:
    return [
        Event(rank, Progress(entered, left, operation))
        for rank, (entered, left) in enumerate(entered_and_left)
    ]


def broken(rank: int, what: str) -> Event:
    described = {"what": what, "traceback": "", "is_consequence": True}
    return Event(rank, Frame(FAILED, PARENT, 0, pickle.dumps(described)))


def test_one_that_is_out_and_stopped_is_named_not_the_one_that_waits_for_its_engine() -> None:
    error = blamed(*progress((3, 2), (3, 3)), stopped=1)
    assert error.rank == 1
    assert "held up worker 0, which did not get out of" in str(error)
    assert str(error).endswith("(its collective number 3) within 100 ms: it is stopped (SIGSTOP).")


def test_one_that_is_stopped_inside_is_named() -> None:
    error = blamed(*progress((3, 2), (3, 2)), stopped=1)
    assert error.rank == 1
    assert "where all workers are, within 100 ms: it is stopped (SIGSTOP)" in str(error)


def test_without_a_stopped_one_the_first_that_waits_is_shown_with_its_stack() -> None:
    error = blamed(*progress((3, 2), (3, 2)), stopped=None)
    assert (error.rank, error.traceback) == (0, "stack of 0")


@pytest.mark.slow
def test_a_broken_collective_is_the_stopped_ones_though_it_had_come_to_all() -> None:
    news = broken(0, "raised CollectiveError: deadline")
    error = blamed(*progress((3, 2), (3, 3)), news, stopped=1)
    assert error.rank == 1
    assert "held up a collective that failed: worker 0 raised CollectiveError" in str(error)


def test_none_is_blamed_if_all_run_and_their_engines_could_not_join() -> None:
    joining = progress((1, 0), (1, 0), operation=JOINING)
    refused = [broken(rank, "raised CollectiveError: refused") for rank in (1, 0)]
    error = blamed(*joining, *refused, stopped=None)
    assert (error.rank, error.host) == (-1, "")
    assert str(error).startswith("the workers could not join their group, though all of them came")
    assert "worker 1 raised CollectiveError: refused. Perhaps another program" in str(error)


@pytest.mark.slow
@pytest.mark.parametrize(("entered", "stopped"), [(0, None), (1, 1)])
def test_one_that_does_not_come_to_joining_or_is_stopped_is_blamed(entered, stopped) -> None:
    joining = progress((1, 0), (entered, 0), operation=JOINING)
    error = blamed(*joining, broken(0, "raised CollectiveError: refused"), stopped=stopped)
    assert error.rank == 1


def test_a_killed_worker_is_named_though_one_whose_engine_aborted_was_noticed_first() -> None:
    inside = progress((1, 0), (1, 0))
    ends = [
        Event(rank, Ended(-number, ""))
        for rank, number in ((0, signal.SIGABRT), (1, signal.SIGKILL))
    ]
    error = blamed(*inside, *ends, stopped=None)
    assert (error.rank, error.signal) == (1, "SIGKILL")


def test_what_an_inner_run_starts_has_the_outer_runs_mark(monkeypatch) -> None:
    monkeypatch.setenv(guarding.RUN_MARKS, "outer")
    assert guarding.with_mark("inner") == {guarding.RUN_MARKS: "outer:inner"}
