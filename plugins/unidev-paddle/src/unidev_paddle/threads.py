"""Keeping Paddle dynamic after the thread that imported it has ended.

During import, Paddle enters its dynamic mode like a ``with`` block, and stores the open block in
the importing thread (``global_var``, a ``threading.local``). This has two consequences, both hidden
if that thread is the main one:

- when the thread ends, the block is garbage, and closing it turns Paddle static for every thread
  that uses it afterwards;
- ``paddle.enable_static()`` does nothing in another thread, which has no block to leave.

So the block gets an owner that lives as long as the process, and the main thread gets it to leave,
as if it had imported Paddle.
"""

from __future__ import annotations

import gc
import threading
from typing import Any

_NAME = "_functional_dygraph_context_manager"

_block: Any = None


def keep_dynamic(framework: Any) -> None:
    """Make the dynamic mode of ``paddle.base.framework`` outlive the thread that imported Paddle.

    Call it in the thread that imported Paddle, or that finds it imported; a user's
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
    # Another thread that still runs has done its own `import paddle`. Python hides a thread's
    # threading.local from other threads, but its garbage collector finds it.
    return next(
        (
            found[_NAME]
            for found in gc.get_objects()
            if type(found) is dict and found.get(_NAME) is not None
        ),
        None,
    )


def _give_to_main_thread(local: Any) -> None:
    # The main thread's state can only be set in that thread. Python calls this initialiser there on
    # the first access, which at the latest is what Paddle does at exit.
    initialise = local.__init__

    def initialise_and_give(self: Any) -> None:
        initialise(self)
        if threading.current_thread() is threading.main_thread():
            local.__init__ = initialise
            if self._dygraph_tracer_ is not None:  # else there is no block left to leave
                setattr(self, _NAME, _block)

    local.__init__ = initialise_and_give
