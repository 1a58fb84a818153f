"""What TensorFlow's allocator of a GPU has in use, and may have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf  # type: ignore[import-untyped]

from unidev.contract import Memory, PeakCounter
from unidev.errors import UnsupportedOperation

if TYPE_CHECKING:
    from unidev.contract import Device


def gpu_memory(device: Device) -> Memory:
    """``get_memory_info``, of what the allocator may take. Starts the runtime.

    Raises:
        UnsupportedOperation: ``device`` is a CPU, whose allocator keeps no count.
    """
    if device.kind != "gpu":
        raise UnsupportedOperation(
            f"memory of {device}", "TensorFlow tells no limit of a CPU's allocator"
        )
    # Not public, and nothing public tells the limit.
    from tensorflow.python.client import device_lib  # type: ignore[import-untyped]

    used = int(tf.config.experimental.get_memory_info(f"GPU:{device.index}")["current"])
    name = f"/device:GPU:{device.index}"
    total = next(
        int(local.memory_limit) for local in device_lib.list_local_devices() if local.name == name
    )
    return Memory(used, max(total - used, 0), total)


class TensorflowPeaks(PeakCounter):
    """The counters of TensorFlow's allocators of GPUs."""

    def used_bytes(self, device: Device) -> int:
        """What ``get_memory_info`` calls current."""
        return int(tf.config.experimental.get_memory_info(_counted(device))["current"])

    def peak_bytes(self, device: Device) -> int:
        """What ``get_memory_info`` calls peak."""
        return int(tf.config.experimental.get_memory_info(_counted(device))["peak"])

    def restart(self, device: Device) -> None:
        """``reset_memory_stats``."""
        tf.config.experimental.reset_memory_stats(_counted(device))


def _counted(device: Device) -> str:
    if device.kind != "gpu":  # TensorFlow 2.21 tells 0 of it, whatever is in use
        raise UnsupportedOperation(
            f"the memory peak of {device}", "TensorFlow counts no memory of the CPU"
        )
    return f"GPU:{device.index}"
