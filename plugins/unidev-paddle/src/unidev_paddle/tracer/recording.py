"""The scopes of each thread, and errors that pass through Paddle's engine."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from unidev.contract import Recording

if TYPE_CHECKING:
    from collections.abc import Callable


class PaddleRecording(Recording):
    """Keeps the last error that a ``begin`` raised."""

    error: BaseException | None = None

    def refused(self, error: BaseException) -> None:
        """See ``Recording``."""
        self.error = error

    def wrap_engine(
        self, function: Callable[..., Any], errors: tuple[type[Exception], ...]
    ) -> Callable[..., Any]:
        """A replacement for a function that runs the graph backwards.

        Paddle's engine turns an error of a Python function in the graph into an ``OSError``: the
        replacement raises the original error of a ``begin`` instead.
        """

        @wraps(function)
        def wrapper(*arguments: Any, **options: Any) -> Any:
            self.error = None
            try:
                return function(*arguments, **options)
            except errors as error:
                refused = self.error
                if refused is None or refused is error:
                    raise
                raise refused from None
            finally:
                self.error = None

        return wrapper


recording = PaddleRecording()
