"""Notes in a trace each variable that chooses GPUs and is changed too late."""

from __future__ import annotations

import os
from functools import wraps
from typing import TYPE_CHECKING, Any

from unidev.backends.observer import thread
from unidev.contract.tracer import Patches
from unidev.system.visible import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_NAMES = {name for names in VARIABLES.values() for name in names}


class EnvironmentChanges(Patches):
    """``os.putenv`` and ``os.unsetenv``, which ``os.environ`` calls, replaced while recording."""

    def replacements(self) -> Iterator[tuple[Any, str, Any]]:
        """Both, wrapped: what a recording thread changes is noted."""
        yield os, "putenv", _noting(os.putenv)
        yield os, "unsetenv", _noting(os.unsetenv)


def _noting(function: Callable[..., None]) -> Callable[..., None]:
    @wraps(function)
    def changed(name: Any, *value: Any) -> None:
        recorder, variable = thread.recorder, os.fsdecode(name)
        if recorder is None or variable not in _NAMES:
            function(name, *value)
            return
        before = os.environ.get(variable)  # which is updated after this call
        function(name, *value)
        now = os.fsdecode(value[0]) if value else None
        if before != now:
            recorder.note_variable(variable, before, now)

    return changed


environment_changes = EnvironmentChanges()
"""The one that all threads share."""
