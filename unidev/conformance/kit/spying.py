"""Observing a method of one object (or module), or making it fail, inside a ``with`` block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType


class Calls:
    """Counts the calls of a method, and can act before or at one of them."""

    def __init__(
        self, owner: object, name: str, before: Callable[[int], object] = lambda _: None
    ) -> None:
        self.count = 0
        self._owner, self._name, self._before = owner, name, before

    def __enter__(self) -> Calls:
        method = getattr(self._owner, self._name)
        self._own = vars(self._owner).get(self._name)

        def called(*arguments: Any, **options: Any) -> Any:
            self.count += 1
            self._before(self.count)  # receives the number of the call, from 1; may raise
            return method(*arguments, **options)

        setattr(self._owner, self._name, called)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._own is not None:  # a module's, or an earlier replacement
            setattr(self._owner, self._name, self._own)
        else:
            delattr(self._owner, self._name)  # the class's own is visible again


def failing_at(number: int, error: BaseException) -> Callable[[int], None]:
    """For ``Calls``: raises ``error`` instead of making the call of that number."""

    def before(count: int) -> None:
        if count == number:
            raise error

    return before
