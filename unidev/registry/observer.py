"""What watches this thread's transfers: one attribute, None while no trace or guard is open."""

from __future__ import annotations

import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from unidev.tracing.recorder import Recorder


class _Thread(threading.local):
    recorder: Recorder | None = None
    """What this thread watches, while a trace or a guard is open in it."""


thread = _Thread()
