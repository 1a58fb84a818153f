"""Medians, spreads and what is concluded from them, with numbers that are given."""

from __future__ import annotations

import gc
import itertools

import pytest

from unidev.bench.running import Effort, measure
from unidev.bench.spread import (
    Summary,
    crossover,
    is_faster,
    rank,
    rate,
    ratio,
    spread,
    summary,
    times,
)


def near(median: float) -> Summary:
    return Summary(median, median * 0.9, median * 1.1, 9)


def test_one_disturbed_timing_moves_neither_the_median_nor_the_spread() -> None:
    quiet = summary([1, 2, 3, 4, 5])
    assert quiet == Summary(3, 2, 4, 5)
    assert summary([1, 2, 3, 4, 500]) == quiet


def test_of_a_few_timings_the_spread_is_all_of_them() -> None:
    assert summary([3, 1, 2]) == Summary(2, 1, 3, 3)
    assert summary([7]) == Summary(7, 7, 7, 1)


def test_faster_is_only_what_does_not_overlap() -> None:
    assert is_faster(near(1), near(2))
    assert not is_faster(near(2), near(1))
    assert not is_faster(near(1), near(1.1))
    assert not is_faster(Summary(1, 1, 2, 9), Summary(2, 2, 3, 9))
    assert ratio(near(6), near(2)) == pytest.approx(3)
    assert ratio(near(6), Summary(0, 0, 0, 3)) == float("inf")


def test_a_ranking_names_the_fastest_and_who_cannot_be_told_from_it() -> None:
    clear = rank({"cpu": near(5), "gpu": near(1)})
    assert (clear.best, clear.contenders, clear.is_too_close) == ("gpu", ("gpu",), False)
    close = rank({"cpu": near(1.1), "gpu:0": near(1), "gpu:1": near(3)})
    assert (close.best, close.contenders, close.is_too_close) == ("cpu", ("cpu", "gpu:0"), True)


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        ([1, 10, 100], [5, 5, 5], 64),
        ([10, 10, 100], [5, 5, 5], 8),
        ([1, 1, 1], [5, 5, 5], None),
        ([1, 10, 5], [5, 5, 5], None),  # at the largest nobody knows
        ([10, 5, 100], [5, 5, 5], 8),  # in the middle nobody knows, which ends no streak
        ([10, 1, 100], [5, 5, 5], 512),
    ],
)
def test_the_crossover_is_where_the_second_begins_to_win_for_good(first, second, found) -> None:
    sizes = (8, 64, 512)
    pairs = [(n, near(a), near(b)) for n, a, b in zip(sizes, first, second, strict=True)]
    assert crossover(reversed(pairs)) == found


def test_of_no_sizes_there_is_no_crossover() -> None:
    assert crossover([]) is None


class Clock:
    """Advances by what each call is said to take."""

    def __init__(self, *durations: float) -> None:
        self.now = 0.0
        self.calls = 0
        self.durations = itertools.chain(durations, itertools.repeat(durations[-1]))

    def call(self) -> None:
        self.calls += 1
        self.now += next(self.durations)

    def __call__(self) -> float:
        return self.now


EFFORT = Effort(budget_s=1.0, most=30, least=5, few=3)


def test_the_first_call_warms_up_and_is_not_counted() -> None:
    clock = Clock(9.0, 0.01)
    assert measure(clock.call, EFFORT, clock) == pytest.approx((0.01, 0.01, 0.01, 30))
    assert clock.calls == 2 + 30


def test_what_takes_long_is_timed_a_few_times() -> None:
    clock = Clock(2.0)
    assert measure(clock.call, EFFORT, clock) == (2.0, 2.0, 2.0, 3)


def test_timings_end_when_their_time_is_over() -> None:
    clock = Clock(0.125)
    assert measure(clock.call, EFFORT, clock).timings == 8


def test_what_is_too_short_for_the_clock_is_called_several_times_for_one_timing() -> None:
    clock = Clock(1e-5)
    told = measure(clock.call, EFFORT, clock)
    assert told.median_s == pytest.approx(1e-5)
    assert clock.calls == 2 + 101 * 30


def test_pythons_collector_is_off_while_timing_and_on_again_afterwards() -> None:
    clock, states = Clock(0.125), []

    def call() -> None:
        clock.call()
        states.append(gc.isenabled())

    measure(call, EFFORT, clock)
    assert states == [True, True] + [False] * 8, "the first two are no timings"
    assert gc.isenabled()


def test_rates_ratios_and_spreads_are_shown_in_three_digits() -> None:
    assert [rate(x) for x in (25 * 2**30, 3 * 2**20)] == ["25 GiB/s", "3 MiB/s"]
    assert spread(Summary(1, 0.5, 2, 9)) == "1 s (500 ms to 2 s)"
    assert times(3.234) == "3.23 times"
