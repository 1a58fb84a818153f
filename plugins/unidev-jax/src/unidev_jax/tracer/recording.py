"""The tracer's state for each thread: its open scopes, and the arrays that were read in them."""

from __future__ import annotations

import weakref
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

from unidev.contract import Recording

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from unidev.contract import PlannedTransfer


class JaxRecording(Recording):
    """Adds the arrays whose values are on the host by now: JAX reads a GPU's array once."""

    def __init__(self) -> None:
        super().__init__()
        self._read: dict[int, weakref.ref[Any]] = {}

    def is_read(self, x: Any) -> bool:
        """Whether JAX, or this scope, has the values of ``x`` on the host.

        JAX keeps them with the array, in a private attribute, and nothing public shows that. It
        does so only if reading copies them: not on simulated GPUs, hence the scope's own record.
        """
        return id(x) in self._read or getattr(x, "_npy_value", None) is not None

    def keep_read(self, arrays: Iterable[Any]) -> None:
        """Remember these while they are alive and a scope is open."""
        for x in arrays:
            self._read[id(x)] = weakref.ref(x, partial(self._forget, id(x)))

    def reading(
        self,
        function: Callable[..., Any],
        arrays_of: Callable[..., Sequence[Any]],
        transfers_of: Callable[[Any], Sequence[PlannedTransfer]],
    ) -> Callable[..., Any]:
        """A replacement for ``function``, which reads the arrays that ``arrays_of`` finds."""

        def planned(*arguments: Any, **options: Any) -> list[PlannedTransfer]:
            found = self._unread(arrays_of(*arguments, **options))
            return [each for x in found for each in transfers_of(x)]

        @wraps(function)
        def call(*arguments: Any, **options: Any) -> Any:
            result = function(*arguments, **options)
            if self.scopes:
                self.keep_read(self.muted(arrays_of, *arguments, **options))
            return result

        return self.wrap(call, planned)

    def closed(self) -> None:
        """Forget what was read: the next scope reports it again."""
        self._read.clear()

    def _unread(self, arrays: Sequence[Any]) -> list[Any]:
        return [x for x in {id(x): x for x in arrays}.values() if not self.is_read(x)]

    def _forget(self, key: int, _: object) -> None:
        self._read.pop(key, None)
