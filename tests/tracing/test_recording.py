"""``Recording``: scopes of a thread, and what is reported to them."""

from __future__ import annotations

from typing import Any

import pytest

import unidev
from unidev.contract.tracer import Recording
from unidev.values import PlannedTransfer


class Events(list[str]):
    """Begins and ends, in the order in which the scopes hear of them."""

    def scope(self, recording: Recording, name: str, raises: BaseException | None = None) -> Any:
        def begin(transfer: PlannedTransfer) -> str:
            if raises is not None:
                raise raises
            self.append(f"begin {name} {transfer.operation}")
            return f"{name} {transfer.operation}"

        return recording.scope(begin, lambda token: self.append(f"end {token}"))


@pytest.fixture
def recording() -> Recording:
    return Recording()


@pytest.fixture
def events() -> Events:
    return Events()


def planned(operation: str = "read") -> PlannedTransfer:
    return PlannedTransfer(operation, unidev.cpu(), unidev.cpu(), 8, (2,))


# -- call -----------------------------------------------------------------------------------------


def test_without_a_scope_or_a_transfer_the_function_is_only_called(
    recording: Recording, events: Events
) -> None:
    assert recording.call([planned()], int, "7") == 7
    with events.scope(recording, "a"):
        assert recording.call([], int, "7") == 7
    assert events == []


def test_options_of_any_name_reach_the_function(recording: Recording, events: Events) -> None:
    options = {"self": 1, "function": 2, "transfers": 3, "transfers_of": 4}
    with events.scope(recording, "a"):
        assert recording.call([planned()], dict, **options) == options
        assert recording.muted(dict, **options) == options
        assert recording.wrap(dict, lambda **_: [planned()])(**options) == options
    assert events == ["begin a read", "end a read"] * 2


def test_a_begin_that_raises_at_the_second_transfer_ends_its_own_first(
    recording: Recording, events: Events
) -> None:
    def begin(transfer: PlannedTransfer) -> str:
        if transfer.operation == "y":
            raise LookupError
        return transfer.operation

    with recording.scope(begin, events.append), pytest.raises(LookupError):
        recording.call([planned("x"), planned("y")], events.append, "call")
    assert events == ["x"]


def test_a_call_that_raises_is_ended_and_recorded_again_afterwards(
    recording: Recording, events: Events
) -> None:
    with events.scope(recording, "a"):
        with pytest.raises(ZeroDivisionError):
            recording.call([planned()], divmod, 1, 0)
        recording.call([planned()], divmod, 1, 1)
    assert events == ["begin a read", "end a read"] * 2


@pytest.mark.parametrize("error", [ValueError(), KeyboardInterrupt()])
def test_an_end_that_raises_keeps_no_other_from_ending(
    recording: Recording, events: Events, error: BaseException
) -> None:
    def end(_: object) -> None:
        raise error

    with (
        events.scope(recording, "a"),
        recording.scope(lambda _: None, end),
        events.scope(recording, "c"),
    ):
        with pytest.raises(type(error)) as caught:
            recording.call([planned()], int)
        assert recording.is_on
    assert caught.value is error
    assert events == ["begin a read", "begin c read", "end c read", "end a read"]


def test_nothing_is_reported_by_begin_by_end_or_within_the_call(
    recording: Recording, events: Events
) -> None:
    def move(*_: object) -> None:
        recording.call([planned("inner")], events.append, "call")

    with events.scope(recording, "a"), recording.scope(move, move):
        recording.call([planned()], move)
    assert events == ["begin a read", "call", "call", "call", "end a read"]


def test_nothing_is_reported_while_muted_but_afterwards_also_after_an_error(
    recording: Recording, events: Events
) -> None:
    with events.scope(recording, "a"):
        with pytest.raises(ZeroDivisionError):
            recording.muted(recording.call, [planned()], divmod, 1, 0)
        assert events == []
        assert recording.is_on
        recording.muted(recording.muted, int)
        assert recording.is_on


# -- wrap -----------------------------------------------------------------------------------------


def test_a_wrapped_function_reports_what_is_found_in_its_arguments(
    recording: Recording, events: Events
) -> None:
    def transfers_of(*operations: str) -> list[PlannedTransfer]:
        recording.call([planned("looked at")], int)
        return [planned(operation) for operation in operations]

    def function(*operations: str) -> int:
        return len(operations)

    wrapped = recording.wrap(function, transfers_of)
    assert wrapped.__name__ == "function"
    assert wrapped("x") == 1
    with events.scope(recording, "a"):
        assert (wrapped(), wrapped("x", "y")) == (0, 2)
    assert events == ["begin a x", "begin a y", "end a y", "end a x"]


def test_arguments_are_not_looked_at_without_a_scope(recording: Recording) -> None:
    assert recording.wrap(int, lambda *_: 1 // 0)("7") == 7
    assert recording.wrap(int, lambda *_: 1 // 0).__doc__ == int.__doc__


# -- scopes ---------------------------------------------------------------------------------------


def test_two_scopes_of_the_same_functions_are_two(recording: Recording) -> None:
    seen: list[object] = []
    first, second = (recording.scope(seen.append, lambda _: None) for _ in range(2))
    with first:
        with second:
            recording.call([planned()], int)
        recording.call([planned()], int)
    assert len(seen) == 3
