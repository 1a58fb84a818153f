"""What needs CUDA itself: each is refused by its name, in one sentence that says why."""

from __future__ import annotations

import sys
import threading
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_LIBRARIES = "it is a handle of CUDA's own libraries, which are not there"
_POOLS = "their memory is the host's, with no pools"
_GRAPHS = "they record no graphs of kernels"
_HISTORY = "their allocator keeps no history: torch.cuda.memory_stats has its counters"
_NCCL = "there is no NCCL in one process: use torch.distributed's backend nccl"
_TUNING = "they choose no kernels, so there is nothing to tune"
_REASONS = {
    "_cuda_getCurrentBlasHandle _cuda_getCurrentSolverHandle _cuda_getStreamFromExternal "
    "_cuda_setCublasWorkspaceSize _cuda_setCublasLtWorkspaceSize _cuda_resetCublasWorkspaceSize "
    "_cuda_resetCublasLtWorkspaceSize _cuda_getCublasWorkspaceSize _cuda_getCublasLtWorkspaceSize "
    "_cuda_getHipblasltVersion": _LIBRARIES,
    "_cuda_jiterator_compile_and_launch_kernel": "they compile no kernels for CUDA",
    "_cuda_memorySnapshot _cuda_record_memory_history _cuda_record_memory_history_legacy "
    "_cuda_allocationTraceback _cuda_setMemoryMetadata _cuda_getMemoryMetadata "
    "_cuda_annotateMemory": _HISTORY,
    "_cuda_cudaCachingAllocator_raw_alloc _cuda_cudaCachingAllocator_raw_delete "
    "_cuda_cudaCachingAllocator_set_allocator_settings _cuda_cudaHostAllocator "
    "_cuda_customAllocator _cuda_getAllocator _cuda_changeCurrentAllocator "
    "_cuda_beginAllocateToPool _cuda_beginAllocateCurrentThreadToPool "
    "_cuda_beginAllocateCurrentStreamToPool _cuda_endAllocateToPool _cuda_releasePool "
    "_cuda_setCheckpointPoolState _cuda_getCheckpointState _cuda_checkPoolLiveAllocations "
    "_graph_pool_handle _construct_storage_from_data_pointer_and_metadata": _POOLS,
    "_nccl_unique_id _nccl_init_rank _nccl_reduce "
    "_nccl_all_reduce _nccl_broadcast _nccl_all_gather _nccl_reduce_scatter": _NCCL,
    "_cuda_tunableop_tuning_is_enabled _cuda_tunableop_tuning_enable _cuda_tunableop_is_enabled "
    "_cuda_tunableop_enable _cuda_tunableop_set_rotating_buffer_size "
    "_cuda_tunableop_set_numerical_check_tolerances _cuda_tunableop_set_max_tuning_iterations "
    "_cuda_tunableop_set_max_tuning_duration _cuda_tunableop_set_filename "
    "_cuda_tunableop_read_file _cuda_tunableop_write_file_on_exit _cuda_tunableop_write_file "
    "_cuda_tunableop_get_validators _cuda_tunableop_get_rotating_buffer_size "
    "_cuda_tunableop_get_results _cuda_tunableop_get_max_tuning_iterations "
    "_cuda_tunableop_get_max_tuning_duration _cuda_tunableop_get_filename "
    "_cuda_tunableop_clear_all _cuda_tunableop_push_dynamic_dims_mask "
    "_cuda_tunableop_pop_dynamic_dims_mask _cuda_tunableop_wildcard_fallback_enable "
    "_cuda_tunableop_wildcard_fallback_is_enabled _cuda_record_untuned_is_enabled "
    "_cuda_record_untuned_enable "
    "_cuda_tunableop_get_cublaslt_requested_algo_count "
    "_cuda_tunableop_set_cublaslt_requested_algo_count": _TUNING,
    "_construct_CUDA_Tensor_From_Storage_And_Metadata _free_And_Remove_DeleterFn "
    "_has_Standard_Deleter _tensors_data_ptrs_at_indices_equal": _GRAPHS,
}
"""Functions of ``torch._C``, and why they are not there."""

_CLASSES = {
    "_CUDAGraph": _GRAPHS,
    "_MemPool": _POOLS,
    "_cuda_CUDAAllocator": _POOLS,
    "_cuda_CUDAAllocator_AllocatorState": _POOLS,  # torch.compile imports it
}


def add_to(bindings: Any) -> None:
    """Give ``torch._C`` functions and classes that refuse, and markers of a profiler it lacks."""
    for names, reason in _REASONS.items():
        for name in names.split():
            setattr(bindings, name, refusing(name, reason))
    for name, reason in _CLASSES.items():
        setattr(bindings, name, type(name, (), {"__new__": refusing(name, reason)}))
    bindings._nvtx = _markers()
    sys.modules["torch._C._nvtx"] = bindings._nvtx


def refusing(name: str, reason: str) -> Callable[..., Any]:
    """A function of that name which raises ``NotImplementedError``."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise NotImplementedError(f"GPUs simulated by unidev have no {name}: {reason}")

    refuse.__name__ = name
    return refuse


def _markers() -> ModuleType:
    """NVTX, whose ranges nest by thread; without its profiler it only counts them."""
    module = ModuleType("torch._C._nvtx")
    depth = threading.local()

    def push(_: str) -> int:
        depth.value = getattr(depth, "value", 0) + 1
        return depth.value - 1  # type: ignore[no-any-return]

    def pop() -> int:
        depth.value = getattr(depth, "value", 0) - 1
        return depth.value  # type: ignore[no-any-return]

    module.__dict__.update(
        rangePushA=push, rangePop=pop, markA=lambda _: None, rangeStartA=lambda _: 0,
        rangeEnd=lambda _: None,
        deviceRangeStart=lambda *_: None, deviceRangeEnd=lambda *_: None,
    )  # fmt: skip
    return module
