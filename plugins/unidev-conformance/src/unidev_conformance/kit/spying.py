"""Observing a method of one object (or module), or making it fail, inside a ``with`` block."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any
from unittest import mock

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from random import Random


class Calls:
    """Counts the calls of a method, and can act before or at one of them."""

    def __init__(
        self, owner: object, name: str, before: Callable[[int], object] = lambda _: None
    ) -> None:
        self.count = 0
        method = getattr(owner, name)

        def called(*arguments: Any, **options: Any) -> Any:
            self.count += 1
            before(self.count)  # receives the number of the call, from 1; may raise
            return method(*arguments, **options)

        self._replacement = mock.patch.object(owner, name, called)

    def __enter__(self) -> Calls:
        self._replacement.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._replacement.stop()


class PressedError(BaseException):
    """Raised by the handlers of ``Presses``."""


class Presses:
    """Sends this process signals whose handlers raise, at the calls of some drawn numbers.

    ``press`` is what ``Calls`` does before each call; several methods may share it.
    """

    def __init__(self, numbers: Collection[int], rng: Random) -> None:
        self._numbers, self._rng = numbers, rng
        self._signals = (signal.SIGALRM, signal.SIGUSR1)
        self._count = 0

    def __enter__(self) -> Presses:
        self._before = [signal.signal(number, self._raise) for number in self._signals]
        return self

    def __exit__(self, *_error: object) -> None:
        for number, handler in zip(self._signals, self._before, strict=True):
            signal.signal(number, handler)

    def press(self, _count: int) -> None:
        """Send one, if this call has such a number."""
        self._count += 1
        if self._count in self._numbers:
            signal.raise_signal(self._rng.choice(self._signals))

    def _raise(self, _number: int, _frame: object) -> None:
        raise PressedError


def failing_at(number: int, error: BaseException) -> Callable[[int], None]:
    """For ``Calls``: raises ``error`` instead of making the call of that number."""

    def before(count: int) -> None:
        if count == number:
            raise error

    return before
