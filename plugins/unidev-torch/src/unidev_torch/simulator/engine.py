"""The threads of torch's autograd engine, one for each device, at the end of the process."""

from __future__ import annotations

import atexit
import os
from typing import Any


def settle_at_exit(ops: Any) -> None:
    """Let autograd's threads come to rest before Python ends, since it may kill them (engine.h).

    Args:
        ops: ``torch.ops.unidev_sim``.
    """
    process = os.getpid()

    def settle() -> None:
        if os.getpid() == process:  # a forked child has none of these threads
            ops.settle_engine()

    atexit.register(settle)
