"""The one boundary between unidev's verbs and a backend.

``call`` calls a method of a backend, translates the framework's errors into unidev's, and reports
transfers to this thread's recorder, if there is one. Without a recorder that costs one attribute
lookup; the fast paths of ``copy_to`` and ``as_in_device`` do not come here.
"""

from __future__ import annotations

from unidev.backends.observer import thread
from unidev.errors import UnidevError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    from unidev.backends.framework_errors import Doing
    from unidev.contract.backend import Backend
    from unidev.values import PlannedTransfer

    T = TypeVar("T")


def call(  # noqa: PLR0913  what is called, and what is reported
    backend: Backend,
    method: Callable[..., T],
    *arguments: Any,
    doing: str | Callable[[], Doing],
    operation: str = "",
    transfers: Callable[[], Sequence[PlannedTransfer]] | None = None,
    is_explicit: bool = True,
) -> T:
    """Call ``method(*arguments)``, a backend's method or a function that runs its framework.

    Args:
        backend: its framework's errors are translated.
        method: what to call.
        *arguments: passed to ``method``.
        doing: what was being done, for an error message: "making a tensor". A function, if the
            words take time to compose.
        operation: the name in a trace, such as ``copy_to``.
        transfers: returns what the call moves; called only while a recorder is active. None: the
            call is an internal step that moves nothing worth recording.
        is_explicit: whether the caller named the device.

    Raises:
        FrameworkError: the framework raised; its own error is the cause.
        TransferForbiddenError: a guard forbids the transfer; ``method`` was not called.
    """
    try:
        recorder = thread.recorder
        if recorder is None:
            return method(*arguments)
        planned = () if transfers is None else transfers()
        return recorder.own_call(operation, planned, is_explicit, method, *arguments)
    except UnidevError:
        raise
    except backend.framework_errors as error:
        raise translated(error, backend, doing) from error


def verb(operation: str, function: Callable[..., T], *arguments: Any) -> T:
    """Call a verb that reports its own transfers, as ``operation``; inner ones are part of it."""
    recorder = thread.recorder
    if recorder is None:
        return function(*arguments)
    return recorder.own_call(operation, (), True, function, *arguments)


class errors_of:  # noqa: N801  reads as the function that it is: `with errors_of(backend, doing):`
    """A block in which errors of ``backend``'s framework are translated into unidev's."""

    def __init__(self, backend: Backend, doing: str | Callable[[], Doing]) -> None:
        self._backend = backend
        self._doing = doing

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, _cls: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, self._backend.framework_errors) and not isinstance(error, UnidevError):
            raise translated(error, self._backend, self._doing) from error


def translated(error: Exception, backend: Backend, doing: str | Callable[[], Doing]) -> UnidevError:
    """The error to raise for one that the framework raised; ``doing`` as in ``call``."""
    from unidev.backends.framework_errors import framework_error  # only once something has failed

    return framework_error(error, backend.name, *((doing,) if isinstance(doing, str) else doing()))
