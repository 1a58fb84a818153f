"""What a worker says of the time of its steps."""

from __future__ import annotations

from unidev.parallel.exchange.step_times import StepTimes


def test_exchange_that_was_not_waited_for_was_hidden() -> None:
    times = StepTimes()
    for _ in range(4):
        times.add(0.5, 0.25, 0.05)
    assert str(times) == (
        "4 steps in 2 s, exchanging for 50% of them; 80% of that was hidden behind computing"
    )


def test_steps_without_exchange_have_no_share() -> None:
    times = StepTimes()
    times.add(1.0, 0.0, 0.0)
    assert str(times) == "1 step in 1 s"
