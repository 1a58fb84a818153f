"""Memory in use by TensorFlow's allocator of a GPU, and its limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf  # type: ignore[import-untyped]

from unidev.contract import Memory, PeakCounter, unsupported
from unidev.errors import UnsupportedOperation

if TYPE_CHECKING:
    from unidev.contract import Backend, Device

_LINK = "https://www.tensorflow.org/api_docs/python/tf/config/experimental/get_memory_info"


def memory_of(backend: Backend) -> Any:
    """From the allocators of real GPUs; CPUs and simulated GPUs have no statistics."""
    if backend.simulated_count or not backend.device_count("gpu"):
        reason = "TensorFlow reports neither the limit of a CPU's allocator nor how much is free"
        return unsupported(reason, _LINK)
    return gpu_memory


def peaks_of(backend: Backend) -> Any:
    """Counted on real GPUs."""
    if backend.simulated_count or not backend.device_count("gpu"):
        reason = "TensorFlow does not count memory on the CPU, which also backs simulated GPUs"
        return unsupported(reason, _LINK)
    return TensorflowPeaks(backend)


def gpu_memory(device: Device) -> Memory:
    """From ``get_memory_info``, within the allocator's limit. Starts the runtime.

    Raises:
        UnsupportedOperation: ``device`` is a CPU, whose allocator keeps no count.
    """
    if device.kind != "gpu":
        raise UnsupportedOperation(
            f"memory of {device}", "TensorFlow reports no limit of a CPU's allocator"
        )
    # Not public, but no public API reports the limit.
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
        """``current`` in ``get_memory_info``."""
        return int(tf.config.experimental.get_memory_info(_counted(device))["current"])

    def peak_bytes(self, device: Device) -> int:
        """``peak`` in ``get_memory_info``."""
        return int(tf.config.experimental.get_memory_info(_counted(device))["peak"])

    def restart(self, device: Device) -> None:
        """``reset_memory_stats``."""
        tf.config.experimental.reset_memory_stats(_counted(device))


def _counted(device: Device) -> str:
    if device.kind != "gpu":  # TensorFlow 2.21 always reports 0
        raise UnsupportedOperation(
            f"the memory peak of {device}", "TensorFlow does not count memory on the CPU"
        )
    return f"GPU:{device.index}"
