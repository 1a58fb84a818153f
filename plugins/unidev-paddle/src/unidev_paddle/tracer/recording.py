"""The scopes of each thread, and errors on their way through Paddle's engine."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from unidev.contract import Recording

if TYPE_CHECKING:
    from collections.abc import Callable


class PaddleRecording(Recording):
    """Keeps what a ``begin`` raised last."""

    error: BaseException | None = None

    def refused(self, error: BaseException) -> None:
        """See ``Recording``."""
        self.error = error

    def wrap_engine(
        self, function: Callable[..., Any], errors: tuple[type[Exception], ...]
    ) -> Callable[..., Any]:
        """A function to put in the place of one that goes through the graph backwards.

        Paddle's engine turns what a Python function in the graph raises into an ``OSError``: the
        error of a ``begin`` comes out as it is.
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
