"""Pausing garbage collection: while a framework is imported, and while something is timed."""

from __future__ import annotations

import gc
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def collection_paused() -> Iterator[None]:
    """A block in which no garbage is collected, in any thread.

    While a framework is imported, the collector looks again and again through the objects that it
    has made so far, which all stay: that takes up to a fifth of the import's time.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
