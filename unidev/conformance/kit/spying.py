"""Observing a method of one object (or module), or making it fail, inside a ``with`` block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest import mock

if TYPE_CHECKING:
    from collections.abc import Callable


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


def failing_at(number: int, error: BaseException) -> Callable[[int], None]:
    """For ``Calls``: raises ``error`` instead of making the call of that number."""

    def before(count: int) -> None:
        if count == number:
            raise error

    return before
