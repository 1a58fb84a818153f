"""The short form of ``nox -s attacks``, on NumPy, and that each of them can find something."""

from __future__ import annotations

import bad_calls
import interruptions
import pytest

import unidev

pytestmark = pytest.mark.slow


def test_no_bad_call_ends_in_anything_but_an_error_of_unidevs() -> None:
    assert list(bad_calls.findings("numpy", 500, seed=4)) == []


def test_a_call_that_ends_the_process_or_raises_anything_else_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def kaputt() -> None:
        raise ZeroDivisionError("not ours")

    def refused() -> None:
        raise unidev.InvalidDataError("ours")

    def within() -> None:
        len()  # type: ignore[call-arg]

    def wrong_signature() -> None:
        within()

    assert "ZeroDivisionError: not ours" in str(bad_calls.outcome(kaputt))
    assert bad_calls.outcome(refused) is None
    assert "TypeError" in str(bad_calls.outcome(wrong_signature))  # not of the call itself
    assert bad_calls.outcome(lambda: len()) is None  # type: ignore[call-arg]  # noqa: PLW0108
    monkeypatch.setattr(bad_calls, "START_S", 0)
    (found,) = bad_calls.findings("numpy", 1)
    assert found.outcome == "no answer within 0 s"
    monkeypatch.undo()
    (found,) = bad_calls.findings("no such backend", 1)
    assert found.outcome == "the process ended with 1"


def test_ctrl_c_tears_nothing_and_leaves_nothing() -> None:
    found = list(interruptions.findings("numpy", 2, seed=1))
    assert len(found) == 3 * len(interruptions.PROGRAMS)
    assert [each for each in found if each is not None] == []
