"""Records frameworks from the moment that they are imported in a recording thread.

While any thread records, a finder is installed in ``sys.meta_path``. In such a thread, a framework
is imported through its backend, with simulated devices if configured, and recorded by the time the
import statement returns. Nothing can have moved before that.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from unidev.backends.discovery import backend_specs
from unidev.backends.import_hook import FrameworkFinder
from unidev.backends.observer import thread
from unidev.system.forking import fork_safe_lock

if TYPE_CHECKING:
    from unidev.errors import UnidevError

_lock = fork_safe_lock()
_users = 0


def start() -> None:
    """Install the finder until every ``start`` has been matched by a ``stop``."""
    global _users  # noqa: PLW0603  sys.meta_path is global, too
    backend_specs()  # first: an import that it makes must not ask a finder that needs its answer
    with _lock:
        _users += 1
        if _users == 1:
            sys.meta_path.insert(0, _finder)


def stop() -> None:
    """Undo one ``start``; the last one removes the finder."""
    global _users  # noqa: PLW0603  as above
    with _lock:
        _users -= 1
        if _users == 0:
            sys.meta_path.remove(_finder)


class _Finder(FrameworkFinder):
    """Has a recording thread record what it imports."""

    def is_wanted(self) -> bool:
        """Whether this thread records."""
        return thread.recorder is not None

    def could_not_load(self, backend: str, error: UnidevError) -> None:
        """Note the reason in the recorder: the program goes on without being traced."""
        if thread.recorder is not None:
            thread.recorder.not_seen[backend] = str(error)


_finder = _Finder()
