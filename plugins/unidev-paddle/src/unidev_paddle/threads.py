"""Keeping Paddle dynamic when the thread that imported it has ended.

While it is imported, Paddle enters its dynamic mode as one enters a ``with`` block, and leaves the
open block with the importing thread (``global_var``, a ``threading.local``). Two things follow, of
which neither shows where that thread is the main one:

- when the thread ends, the block is garbage, and closing it turns Paddle static for every thread
  that comes to use it afterwards;
- ``paddle.enable_static()`` does nothing in another thread: it has no block to leave there.

So the block gets an owner that lives as long as the process, and the main thread gets it to leave:
as if that had imported Paddle.
"""

from __future__ import annotations

import gc
import threading
from typing import Any

_NAME = "_functional_dygraph_context_manager"

_block: Any = None


def keep_dynamic(framework: Any) -> None:
    """Have the dynamic mode of ``paddle.base.framework`` outlive the thread that imported Paddle.

    For the thread that imported it just now, or finds it imported; a user's
    ``paddle.enable_static()`` has the last word before and after.
    """
    global _block  # noqa: PLW0603  Paddle has one for the process
    state = framework.global_var
    if _block is not None or state._dygraph_tracer_ is None:
        return
    is_main = threading.current_thread() is threading.main_thread()
    _block = getattr(state, _NAME)
    if _block is None:
        _block = _of_another_thread()
        if _block is not None and is_main:
            setattr(state, _NAME, _block)
    if _block is not None and not is_main:
        _give_to_main_thread(type(state))


def _of_another_thread() -> Any:
    # Somebody's own `import paddle` in a thread that is still there. Python shows nobody the
    # threading.local of another thread, but its garbage collector has it.
    return next(
        (
            found[_NAME]
            for found in gc.get_objects()
            if type(found) is dict and found.get(_NAME) is not None
        ),
        None,
    )


def _give_to_main_thread(local: Any) -> None:
    # What is the main thread's own can only be set in it. Python calls this initialiser there when
    # the main thread first looks, at the latest for what Paddle does at exit.
    initialise = local.__init__

    def initialise_and_give(self: Any) -> None:
        initialise(self)
        if threading.current_thread() is threading.main_thread():
            local.__init__ = initialise
            if self._dygraph_tracer_ is not None:  # else nobody has a block to leave any more
                setattr(self, _NAME, _block)

    local.__init__ = initialise_and_give
