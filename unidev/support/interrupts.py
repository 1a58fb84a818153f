"""``held_interrupts``: a block that Ctrl-C does not leave half done, even if pressed again."""

from __future__ import annotations

# What `signal` wraps: until Python 3.12, that looks for each handler among the members of an enum,
# which takes longer than placing a layer.
import _signal  # type: ignore[import-not-found]
import signal
import sys
from contextlib import suppress
from typing import Any


class held_interrupts:  # noqa: N801  used as a function, in a `with`
    """``with held_interrupts() as interrupts:`` Ctrl-C waits for ``check()``, or for the end.

    Does nothing in other threads than the main one, where alone Ctrl-C raises.
    """

    def __init__(self) -> None:
        self._handler: Any = None
        self._is_pending = False

    def __enter__(self) -> held_interrupts:
        if _signal.getsignal(signal.SIGINT) is not None:  # else it could not be restored
            with suppress(ValueError):  # not the main thread
                self._handler = _signal.signal(signal.SIGINT, self._hold)
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._handler is not None:
            _signal.signal(signal.SIGINT, self._handler)
            if self._is_pending:
                signal.raise_signal(signal.SIGINT)

    def check(self) -> None:
        """Raise a Ctrl-C that has come meanwhile."""
        if self._is_pending and callable(self._handler):
            self._is_pending = False
            self._handler(signal.SIGINT, sys._getframe())

    @property
    def is_pending(self) -> bool:
        """Whether a Ctrl-C has come meanwhile."""
        return self._is_pending

    def taken(self) -> bool:
        """Whether a Ctrl-C has come meanwhile, which is then raised neither here nor at the end."""
        was_pending, self._is_pending = self._is_pending, False
        return was_pending

    def _hold(self, *_: object) -> None:
        self._is_pending = True
