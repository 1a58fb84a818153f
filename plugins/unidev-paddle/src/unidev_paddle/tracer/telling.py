"""What the scopes that are open in one thread are told."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from unidev.contract import PlannedTransfer

    Begun = tuple["Watch", Any]


class Watch(NamedTuple):
    """The two functions that a scope was opened with."""

    begin: Callable[[PlannedTransfer], Any]
    end: Callable[[Any], None]


class Telling:
    """Tells the scopes of its thread, the outermost first, while none of them is being told."""

    def __init__(self) -> None:
        self.watches: list[Watch] = []
        self.raised: BaseException | None = None
        """What a ``begin`` raised last: Paddle's engine makes another error of it."""

    def call(
        self,
        transfers: Sequence[PlannedTransfer],
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        options: Mapping[str, Any],
    ) -> Any:
        """What ``function`` gives, and the transfers told before and after."""
        if not transfers:
            return function(*arguments, **options)
        begun = self._begin(transfers)
        try:
            return function(*arguments, **options)
        finally:
            self._end(begun)

    def _begin(self, transfers: Sequence[PlannedTransfer]) -> list[Begun]:
        begun: list[Begun] = []
        thread.telling = None  # what is done with a transfer may well print a tensor
        try:
            for moved in transfers:
                begun += [(watch, watch.begin(moved)) for watch in self.watches]
        except BaseException as error:
            self.raised = error
            self._end(begun)
            raise
        finally:
            thread.telling = self
        return begun

    def _end(self, begun: list[Begun]) -> None:
        thread.telling = None
        try:
            for watch, token in reversed(begun):
                watch.end(token)
        finally:
            thread.telling = self


class _Thread(threading.local):
    telling: Telling | None = None
    """None where no scope is open."""


thread = _Thread()
