"""Memory: what is allocated, the most that was, and how much a process may have."""
# ruff: noqa: N802  the names are torch's, which describes them

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from unidev_torch_simulator.cuda.devices import add_functions, ops


def add_to(bindings: Any) -> None:
    """Give ``torch._C`` the functions about memory, and the module of the runtime's own."""
    add_functions(bindings, globals())
    bindings._host_emptyCache = _cuda_emptyCache
    bindings._cudart = _runtime()
    sys.modules["torch._C._cudart"] = bindings._cudart


_FIELDS = ("current", "peak", "allocated", "freed")


def _cuda_memoryStats(index: int) -> dict[str, Any]:
    found: list[int] = ops().memory_stats(index)
    sizes, requested, blocks = (
        dict(zip(_FIELDS, found[i : i + 4], strict=True)) for i in (0, 4, 8)
    )
    none = dict.fromkeys(_FIELDS, 0)

    def in_pools(of_all: dict[str, int]) -> dict[str, dict[str, int]]:
        # Nothing is pooled: each request is a block, and given back when it is freed.
        return {"all": of_all, "small_pool": dict(none), "large_pool": dict(none)}

    return {
        **{name: in_pools(sizes) for name in ("allocated_bytes", "reserved_bytes", "active_bytes")},
        **{name: in_pools(blocks) for name in ("allocation", "segment", "active")},
        "requested_bytes": in_pools(requested),
        "inactive_split": in_pools(dict(none)),
        "inactive_split_bytes": in_pools(dict(none)),
        "oversize_allocations": dict(none),
        "oversize_segments": dict(none),
        "num_alloc_retries": found[12],  # as CUDA's does before it gives up
        "num_ooms": found[12],
        "num_sync_all_streams": 0,
        "num_device_alloc": blocks["allocated"],
        "num_device_free": blocks["freed"],
        "max_split_size": -1,
    }


def _cuda_resetPeakMemoryStats(index: int) -> None:
    ops().reset_peak(index)


def _cuda_resetAccumulatedMemoryStats(index: int) -> None:
    ops().reset_accumulated(index)


def _cuda_hostMemoryStats() -> dict[str, Any]:
    return {}


def _cuda_resetPeakHostMemoryStats() -> None: ...


def _cuda_resetAccumulatedHostMemoryStats() -> None: ...


def _cuda_emptyCache() -> None:
    """Does nothing: nothing is cached."""


def _cuda_setMemoryFraction(fraction: float, index: int) -> None:
    ops().set_memory_fraction(index, fraction)


def _cuda_getMemoryFraction(index: int) -> float:
    fraction: float = ops().memory_fraction(index)
    return fraction


def _cuda_getAllocatorBackend() -> str:
    return "native"


def _cuda_cudaCachingAllocator_is_enabled() -> bool:
    return True


def _cuda_cudaCachingAllocator_enable(value: bool) -> None: ...


def _cuda_isHistoryEnabled() -> bool:
    return False


def _cuda_memoryMetadataSupported() -> bool:
    return False


def _cuda_lock_mutex() -> None:
    """Does nothing: it held back cudaFree (2.9)."""


def _cuda_unlock_mutex() -> None: ...


def _cuda_attach_out_of_memory_observer(observer: Any) -> None:
    raise NotImplementedError(
        "GPUs simulated by unidev call no observer when they are full: they keep no history for it"
    )


_ERRORS = {
    0: "no error",
    1: "invalid argument",
    2: "out of memory",
    3: "initialization error",
    4: "driver shutting down",
    35: "CUDA driver version is insufficient for CUDA runtime version",
    46: "CUDA-capable device(s) is/are busy or unavailable",
    98: "invalid device function",
    100: "no CUDA-capable device is detected",
    101: "invalid device ordinal",
    209: "no kernel image is available for execution on the device",
    304: "OS call failed or operation not supported on this OS",
    400: "invalid resource handle",
    600: "device not ready",
    700: "an illegal memory access was encountered",
    701: "too many resources requested for launch",
    702: "the launch timed out and was terminated",
    704: "peer access is already enabled",
    710: "device-side assert triggered",
    712: "part or all of the requested memory range is already mapped",
    713: "pointer does not correspond to a registered memory region",
    716: "misaligned address",
    719: "unspecified launch failure",
    801: "operation not supported",
    999: "unknown error",
}
"""The runtime's words; those that torch and programs on it meet."""


class _CudaError(int):
    """``cudaError_t``."""


_CudaError.success = _CudaError(0)  # type: ignore[attr-defined]


def _runtime() -> ModuleType:
    module = ModuleType("torch._C._cudart")

    def succeeds(*_: Any) -> _CudaError:
        return _CudaError(0)

    def error_text(error: _CudaError) -> str:
        if not isinstance(error, _CudaError):
            raise TypeError(f"cudaGetErrorString takes a cudaError, not {error!r}")
        return _ERRORS.get(int(error), "unrecognized error code")

    def host_register(address: int, size: int, _: int) -> _CudaError:
        return _CudaError(ops().host_register(address, size) if address and size > 0 else 1)

    named: dict[str, Any] = {
        "cudaError": _CudaError,
        "cudaGetErrorString": error_text,
        "cudaMemGetInfo": lambda index: tuple(ops().memory_info(index)),
        **dict.fromkeys(("cudaProfilerStart", "cudaProfilerStop"), succeeds),
        "cudaHostRegister": host_register,
        "cudaHostUnregister": lambda address: _CudaError(ops().host_unregister(address)),
    }
    module.__dict__.update(named)
    return module
