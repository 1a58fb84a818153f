"""This thread's recorder of transfers: one attribute, None while no trace or guard is open."""

from __future__ import annotations

import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from unidev.tracing.recorder import Recorder


class _Thread(threading.local):
    recorder: Recorder | None = None
    """Set while a trace or a guard is open in this thread."""


thread = _Thread()
