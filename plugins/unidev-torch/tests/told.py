"""For tests of the tracer: what it tells while something runs, as plain tuples and names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import unidev

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from unidev import PlannedTransfer

    Told = tuple[str, str, str, int, tuple[int, ...] | None]


def watch(
    begin: Callable[[PlannedTransfer], Any], end: Callable[[Any], None] = lambda _: None
) -> AbstractContextManager[None]:
    """The tracer's scope."""
    return unidev.active_backend().tracer.watch(begin, end)


def told_of(function: Callable[..., Any], *arguments: Any) -> list[Told]:
    """What is told while ``function(*arguments)`` runs."""
    told: list[Told] = []
    ended: list[int] = []

    def begin(moved: PlannedTransfer) -> int:
        told.append(
            (moved.operation, str(moved.source), str(moved.target), moved.nbytes, moved.shape)
        )
        return len(told)

    with watch(begin, ended.append):
        function(*arguments)
    assert sorted(ended) == list(range(1, len(told) + 1))
    return told


def names_told_by(function: Callable[..., Any], *arguments: Any) -> list[str]:
    """Operation and target of each transfer while ``function(*arguments)`` runs."""
    return [f"{told[0]} to {told[2]}" for told in told_of(function, *arguments)]
