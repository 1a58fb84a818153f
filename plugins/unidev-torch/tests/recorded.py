"""For tests of the tracer: what it records while something runs, as plain tuples and names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import unidev

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from unidev import PlannedTransfer

    Recorded = tuple[str, str, str, int, tuple[int, ...] | None]


def watch(
    begin: Callable[[PlannedTransfer], Any], end: Callable[[Any], None] = lambda _: None
) -> AbstractContextManager[None]:
    """The tracer's scope."""
    return unidev.active_backend().tracer.watch(begin, end)


def recorded_of(function: Callable[..., Any], *arguments: Any) -> list[Recorded]:
    """What is recorded while ``function(*arguments)`` runs."""
    recorded: list[Recorded] = []
    ended: list[int] = []

    def begin(moved: PlannedTransfer) -> int:
        recorded.append(
            (moved.operation, str(moved.source), str(moved.target), moved.nbytes, moved.shape)
        )
        return len(recorded)

    with watch(begin, ended.append):
        function(*arguments)
    assert sorted(ended) == list(range(1, len(recorded) + 1))
    return recorded


def names_recorded_by(function: Callable[..., Any], *arguments: Any) -> list[str]:
    """Operation and target of each transfer while ``function(*arguments)`` runs."""
    return [f"{recorded[0]} to {recorded[2]}" for recorded in recorded_of(function, *arguments)]
