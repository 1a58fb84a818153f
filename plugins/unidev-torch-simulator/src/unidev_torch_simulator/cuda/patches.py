"""Where torch's C++ for Python was compiled without CUDA, so that its Python must be told."""

from __future__ import annotations

import functools
from typing import Any

from unidev_torch_simulator.cuda import ipc, legacy_types
from unidev_torch_simulator.cuda.devices import ops, uuids
from unidev_torch_simulator.cuda.refused import refusing
from unidev_torch_simulator.importing import settle_at_exit

_DRIVER = "there is no driver behind them"
_POINTER = "it would hand the host's memory to another library as a pointer of CUDA"


def apply(torch: Any) -> None:
    """Patch a torch that is complete; the process has it from here on."""
    settle_at_exit(torch.ops.unidev_sim)
    _patch_storages(torch)
    ipc.apply(torch)
    _patch_interchange(torch)
    legacy_types.apply(torch)
    _patch_plans(torch.backends.cuda)
    torch._C._is_flash_attention_available = lambda: True  # the build has it, whatever the card can
    torch._C._can_use_flash_attention = functools.partial(_can_use, 1)  # SDPBackend's numbers
    torch._C._can_use_mem_efficient_attention = functools.partial(_can_use, 2)
    # NVML would report real cards: their number, load and temperature. Until CUDA is used, torch
    # counts by it, and reads CUDA_VISIBLE_DEVICES each time.
    torch.cuda._raw_device_count_nvml = lambda: len(uuids())
    torch.cuda._raw_device_uuid_nvml = uuids
    torch.cuda._get_pynvml_handler = refusing("NVML", _DRIVER)
    torch.cuda.list_gpu_processes = torch.cuda.memory.list_gpu_processes = refusing("NVML", _DRIVER)
    # Layers ask it, and it would warn that PyTorch is to be rebuilt with cuDNN.
    torch.backends.cudnn.is_acceptable = lambda tensor: False  # noqa: ARG005
    torch.cuda._compile_kernel = refusing("NVRTC", "they run no kernels for CUDA")
    _let_hooks_send_bfloat16(torch)
    torch.cuda.nccl.is_available = lambda tensors: False  # noqa: ARG005  comm.py has another way


def _let_hooks_send_bfloat16(torch: Any) -> None:
    # DDP asks torch.version.cuda, which stays None, whether NCCL can send what a hook compresses.
    from torch.nn import parallel

    ddp: Any = parallel.DistributedDataParallel
    check = ddp._check_comm_hook
    compressing = {"bf16_compress_hook", "bf16_compress_wrapper_hook"}

    def _check_comm_hook(self: Any, hook: Any) -> Any:
        name = getattr(hook, "__name__", None)  # torch refuses a hook that is not a function
        if name not in compressing or not torch.distributed.is_nccl_available():
            return check(self, hook)

        @functools.wraps(hook)
        def by_another_name(*given: Any) -> Any:
            return hook(*given)

        by_another_name.__name__ = "hook"
        return check(self, by_another_name)

    ddp._check_comm_hook = _check_comm_hook


def _patch_storages(torch: Any) -> None:
    base = torch.UntypedStorage
    resize = base.resize_

    def __new__(cls: Any, *given: Any, device: Any = None, **named: Any) -> Any:  # noqa: N807
        if device is None or torch.device(device).type != "cuda":
            if device is not None:
                named["device"] = device
            return super(base, cls).__new__(cls, *given, **named)
        if given and not isinstance(given[0], int):
            bytes_ = torch.tensor(list(given[0]), dtype=torch.uint8, device=device)
        else:
            bytes_ = torch.empty(given[0] if given else 0, dtype=torch.uint8, device=device)
        return bytes_.untyped_storage()

    def resize_(self: Any, size: int) -> Any:
        if self.device.type != "cuda":
            return resize(self, size)
        if not self.resizable():
            raise RuntimeError("Trying to resize storage that is not resizable")
        holder = torch.empty(0, dtype=torch.uint8, device=self.device).set_(self)
        ops().resize_storage(holder, int(size))
        return self

    base.__new__ = __new__
    base.resize_ = resize_


def _patch_interchange(torch: Any) -> None:
    _refuse_for_cuda(torch.Tensor, "__dlpack__", _POINTER)
    to_dlpack = torch._C._to_dlpack

    def _to_dlpack(tensor: Any, *given: Any, **named: Any) -> Any:
        if tensor.is_cuda:
            refusing("DLPack", _POINTER)()
        return to_dlpack(tensor, *given, **named)

    torch._C._to_dlpack = torch.to_dlpack = torch.utils.dlpack.to_dlpack = _to_dlpack
    interface = torch.Tensor.__cuda_array_interface__.fget

    def __cuda_array_interface__(self: Any) -> Any:  # noqa: N807
        if self.is_cuda:
            # The error by which a library learns that a tensor is not one for it.
            raise AttributeError(
                f"GPUs simulated by unidev have no __cuda_array_interface__: {_POINTER}"
            )
        return interface(self)

    torch.Tensor.__cuda_array_interface__ = property(__cuda_array_interface__)


def _can_use(kernel: int, params: Any, debug: bool) -> bool:
    if params.query.is_nested:  # in C++, where torch's checks take dense ones only
        return False
    can: bool = ops().can_use_attention(
        kernel, params.query, params.key, params.value, params.attn_mask, params.dropout,
        params.is_causal, params.enable_gqa, debug,
    )  # fmt: skip
    return can


def _patch_plans(backend: Any) -> None:
    # torch's own error says at length that the library ATen_cuda must be linked.
    cache = backend.cuFFTPlanCache
    refuse = refusing("cuFFT", "their transforms are the CPU's, which keep no plans")
    cache.size = property(lambda self: 0)  # noqa: ARG005
    cache.max_size = property(refuse, refuse)
    cache.clear = lambda self: None  # noqa: ARG005


def _refuse_for_cuda(owner: Any, name: str, reason: str) -> None:
    original = getattr(owner, name)

    def method(self: Any, *given: Any, **named: Any) -> Any:
        if self.device.type == "cuda":
            refusing(name, reason)()
        return original(self, *given, **named)

    method.__name__ = name
    setattr(owner, name, method)
