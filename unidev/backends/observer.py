"""This thread's recorder of transfers: one attribute, None while no trace or guard is open."""

from __future__ import annotations

import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol, TypeVar

    from unidev.contract.backend import Backend
    from unidev.values import PlannedTransfer

    T = TypeVar("T")

    class Recorder(Protocol):
        """What others report to ``unidev.tracing.recorder.Recorder``."""

        not_seen: dict[str, str]
        """Backends that cannot be traced, and why."""

        def add(self, backend: Backend) -> None:
            """A backend is loaded."""

        def own_call(
            self,
            operation: str,
            transfers: Sequence[PlannedTransfer],
            is_explicit: bool,
            function: Callable[..., T],
            *arguments: Any,
        ) -> T:
            """A verb calls a function of its own or the backend's."""

        def exchanged(self, start: float, seconds: float, hidden_s: float) -> None:
            """Gradients were exchanged with other workers."""

        def note_variable(self, variable: str, before: str | None, now: str | None) -> None:
            """An environment variable was changed."""


class _Thread(threading.local):
    recorder: Recorder | None = None
    """Set while a trace or a guard is open in this thread."""


thread = _Thread()
