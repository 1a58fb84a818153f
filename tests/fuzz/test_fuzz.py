"""The short form of the two fuzzers: some of their calls and copies, on NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import bad_calls
import drawn_copies

import unidev
from unidev.registry.loading import load_backend

if TYPE_CHECKING:
    import pytest


def test_no_bad_call_ends_in_anything_but_an_error_of_unidevs() -> None:
    assert list(bad_calls.findings("numpy", 250, seed=1)) == []


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


def test_drawn_copies_are_numpys_to_the_bit(two_gpus: None) -> None:
    backend = load_backend("numpy")
    assert [fault for n in range(300) for fault in drawn_copies.wrong(n, 1, backend)] == []


def test_a_copy_that_is_none_is_found(two_gpus: None, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = load_backend("numpy")
    monkeypatch.setattr(unidev, "copy_to", lambda x, device, **_: x)
    faults = [fault for n in range(50) for fault in drawn_copies.wrong(n, 1, backend)]
    assert {fault.rpartition(": ")[2] for fault in faults} >= {"shared memory"}
