"""Memory in use by JAX's allocator of a GPU, and its limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unidev.contract import Memory, unsupported
from unidev.errors import UnsupportedOperation

if TYPE_CHECKING:
    from unidev.contract import Backend, Device

_LINK = "https://docs.jax.dev/en/latest/gpu_memory_allocation.html"


def memory_of(backend: Backend) -> Any:
    """From the allocators of real GPUs; CPUs and simulated GPUs have no statistics."""
    if backend.simulated_count or not backend.device_count("gpu"):
        return unsupported("JAX does not count the memory of a CPU", _LINK)
    return gpu_memory


def gpu_memory(device: Device) -> Memory:
    """From ``memory_stats``, within the allocator's limit.

    Raises:
        UnsupportedOperation: JAX's allocator of ``device`` keeps no count.
    """
    counted = device.native.memory_stats()
    if not counted or "bytes_limit" not in counted:
        raise UnsupportedOperation(
            f"memory of {device}",
            "JAX's allocator there keeps no count (XLA_PYTHON_CLIENT_ALLOCATOR=platform has none)",
            _LINK,
        )
    used, total = int(counted["bytes_in_use"]), int(counted["bytes_limit"])
    memory = Memory(used, max(total - used, 0), total)
    reserved = counted.get("pool_bytes")
    return memory if reserved is None else memory.with_reserved(int(reserved))
