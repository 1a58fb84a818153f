"""Importing Paddle without crashing the process."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from typing import TYPE_CHECKING

from unidev_paddle.threads import keep_dynamic

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import ModuleType


def import_paddle() -> ModuleType:
    """``import paddle``, safe after TensorFlow, and in a thread that ends.

    After TensorFlow a plain import is a segmentation fault: each has its own protobuf, and Paddle's
    library binds to TensorFlow's symbols (seen with TensorFlow 2.21 and Paddle 3.3.1).

    And Paddle turns static when the thread that imported it ends (threads.py explains why).
    """
    with _own_symbols_first():
        paddle = importlib.import_module("paddle")
    keep_dynamic(paddle.base.framework)
    return paddle


@contextlib.contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set ``variables`` in ``os.environ``, and restore it afterwards.

    For what Paddle reads only while it is imported; its own changes to these variables in the
    meantime are undone, too.
    """
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _own_symbols_first() -> Iterator[None]:
    # Only beside TensorFlow: RTLD_DEEPBIND also makes a library miss an allocator preloaded before
    # the C library's with LD_PRELOAD, so it is used only where it is needed.
    deepbind = getattr(os, "RTLD_DEEPBIND", None)  # Linux has it; macOS and Windows do not need it
    if deepbind is None or "tensorflow" not in sys.modules:
        yield
        return
    flags = sys.getdlopenflags()
    sys.setdlopenflags(flags | deepbind)
    try:
        yield
    finally:
        sys.setdlopenflags(flags)
