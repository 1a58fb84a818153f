"""``held_interrupts``: a block that signals do not leave half done, however many arrive."""

from __future__ import annotations

# What `signal` wraps: until Python 3.12, that looks for each handler among the members of an enum,
# which takes longer than placing a layer.
import _signal  # type: ignore[import-not-found]
import sys
import threading
from typing import Any

_NUMBERS = tuple(sorted(_signal.valid_signals()))


class held_interrupts:  # noqa: N801  used as a function, in a `with`
    """``with held_interrupts() as interrupts:`` signals wait for ``check()``, or for the end.

    All that have a handler in Python, as each of them may raise: Ctrl-C, and a program's own for
    SIGTERM or an alarm. Each handler is called once, however often its signal has arrived. Does
    nothing in other threads than the main one, where alone Python calls handlers.
    """

    def __init__(self) -> None:
        self._handlers: dict[int, Any] = {}
        self._pending: dict[int, None] = {}
        self._is_held = True

    def __enter__(self) -> held_interrupts:
        if threading.get_ident() != threading.main_thread().ident:
            return self
        hold = self._hold
        try:
            for number, handler in zip(_NUMBERS, map(_signal.getsignal, _NUMBERS), strict=True):
                if callable(handler):
                    # Before it is replaced: the handler of another signal may raise in between.
                    self._handlers[number] = handler
                    _signal.signal(number, hold)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        try:
            self._is_held = False
            self._restore()
        finally:
            self.check()

    def check(self) -> None:
        """Call the handlers of the signals that have come meanwhile, which may raise."""
        if self._pending:
            number, _ = self._pending.popitem()
            try:
                self._handlers[number](number, sys._getframe())
            finally:
                self.check()

    @property
    def is_pending(self) -> bool:
        """Whether a signal has come meanwhile."""
        return bool(self._pending)

    def taken(self) -> set[int]:
        """The signals that have come meanwhile, whose handlers are then not called here."""
        taken = set(self._pending)
        for number in taken:
            del self._pending[number]
        return taken

    def _restore(self) -> None:
        try:
            for number, handler in self._handlers.items():
                _signal.signal(number, handler)
        except BaseException:  # a handler that is restored already has raised
            self._restore()
            raise

    def _hold(self, number: int, frame: Any) -> None:
        if self._is_held:
            self._pending[number] = None
            return
        # Still set, if interrupts have come in each line of `_restore`, too.
        _signal.signal(number, self._handlers[number])
        self._handlers[number](number, frame)
