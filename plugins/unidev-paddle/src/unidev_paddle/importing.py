"""Importing Paddle without bringing the process down."""

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
    """``import paddle``, also where TensorFlow is imported already, and in a thread that ends.

    Without care the first is a segmentation fault: both bring their own protobuf, and Paddle's
    library takes TensorFlow's symbols for its own (seen with TensorFlow 2.21 and Paddle 3.3.1).

    And Paddle would turn static when a thread ends that imported it (threads.py says why).
    """
    with _own_symbols_first():
        paddle = importlib.import_module("paddle")
    keep_dynamic(paddle.base.framework)
    return paddle


@contextlib.contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """``variables`` in ``os.environ``, which is then as it was before.

    For what Paddle reads while it is imported and not later; what it writes there itself in the
    meantime, under one of these names, goes too.
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
    # Only beside TensorFlow: RTLD_DEEPBIND also makes a library miss an allocator that was put
    # before the C library's with LD_PRELOAD, so nobody gets it who does not need it.
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
