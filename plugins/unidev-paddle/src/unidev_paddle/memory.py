"""How much memory a device has, and what Paddle has of it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from unidev.contract import Memory
from unidev.errors import UnsupportedOperation
from unidev_paddle import simulator
from unidev_paddle.importing import import_paddle

if TYPE_CHECKING:
    from unidev_paddle.devices import Accelerator

paddle: Any = import_paddle()


def of_cpu() -> Memory:
    """Of the host: in use by Paddle's tensors, free for anybody, and in all."""
    return _of_host(paddle.base.core.host_memory_stat_current_value("Allocated", 0))


def of_simulated(index: int) -> Memory:
    """Of the host too, where the simulated GPUs have theirs."""
    return _of_host(simulator.allocated_bytes(index))


def of_real(accelerator: Accelerator) -> Memory:
    """In use by Paddle's tensors, and in all; what other processes hold, Paddle cannot see."""
    if accelerator.device_type != "gpu":
        raise UnsupportedOperation(
            "memory", f"Paddle tells what is in use on {accelerator}, not how much there is"
        )
    used = int(paddle.device.cuda.memory_allocated(accelerator.device_id))
    properties = paddle.device.cuda.get_device_properties(accelerator.device_id)
    total = int(properties.total_memory)
    return Memory(used, total - used, total)


def _of_host(used: int) -> Memory:
    try:
        page = os.sysconf("SC_PAGE_SIZE")
        total, free = os.sysconf("SC_PHYS_PAGES") * page, os.sysconf("SC_AVPHYS_PAGES") * page
    except (AttributeError, ValueError, OSError) as error:  # Windows has no sysconf
        raise UnsupportedOperation(
            "memory", "this system does not tell how much the host has"
        ) from error
    return Memory(int(used), free, total)
