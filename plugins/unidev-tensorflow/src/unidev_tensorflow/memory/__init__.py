"""Memory in use by TensorFlow's allocator of a GPU, and its limit."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import tensorflow as tf  # type: ignore[import-untyped]

from unidev.contract import Memory, PeakCounter, unsupported
from unidev.errors import UnsupportedOperation

if TYPE_CHECKING:
    from unidev.contract import Backend, Device
    from unidev_tensorflow.backend import TensorFlowBackend

_LINK = "https://www.tensorflow.org/api_docs/python/tf/config/experimental/get_memory_info"


def memory_of(backend: TensorFlowBackend) -> Any:
    """From the allocators of real GPUs; CPUs and simulated GPUs have no statistics."""
    if backend.simulated_count or not backend.device_count("gpu"):
        reason = "TensorFlow reports neither the limit of a CPU's allocator nor how much is free"
        return unsupported(reason, _LINK)
    return partial(gpu_memory, backend)


def peaks_of(backend: Backend) -> Any:
    """Counted on real GPUs."""
    if backend.simulated_count or not backend.device_count("gpu"):
        reason = "TensorFlow does not count memory on the CPU, which also backs simulated GPUs"
        return unsupported(reason, _LINK)
    return TensorflowPeaks(backend)


def gpu_memory(backend: TensorFlowBackend, device: Device) -> Memory:
    """From ``get_memory_info``, within the allocator's limit. Starts the runtime.

    Raises:
        UnsupportedOperation: ``device`` is a CPU, whose allocator keeps no count.
    """
    if device.kind != "gpu":
        raise UnsupportedOperation(
            f"memory of {device}", "TensorFlow reports no limit of a CPU's allocator"
        )
    total = limit_of(backend.full_name(device))
    used = int(tf.config.experimental.get_memory_info(_counted(device))["current"])
    return Memory(used, max(total - used, 0), total)


def limit_of(name: str) -> int:
    """The bytes that TensorFlow's allocator for the device with this full name may take.

    From the devices that this process has. ``list_local_devices`` makes others, by the default
    configuration: contexts on GPUs that the program has hidden, or an error.
    """
    # Not public, but no public API reports the limit.
    from tensorflow.python import pywrap_tfe  # type: ignore[import-untyped]
    from tensorflow.python.client import pywrap_tf_session  # type: ignore[import-untyped]
    from tensorflow.python.eager import context  # type: ignore[import-untyped]

    running = context.context()
    running.ensure_initialized()
    devices = pywrap_tfe.TFE_ContextListDevices(running._handle)
    try:
        for place in range(pywrap_tfe.TF_DeviceListCount(devices)):
            if pywrap_tfe.TF_DeviceListName(devices, place) == name:
                return int(pywrap_tf_session.TF_DeviceListMemoryBytes(devices, place))
    finally:
        pywrap_tfe.TF_DeleteDeviceList(devices)
    raise UnsupportedOperation(f"memory of {name}", "TensorFlow does not list this device")


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
