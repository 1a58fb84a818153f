"""Torch's accelerator: looked at without touching it, and copied from in the order of streams."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
from torch._C._functorch import get_unwrapped as unwrapped
from torch._C._functorch import is_functorch_wrapped_tensor as is_wrapped

from unidev.contract import driver_cuda_version
from unidev_torch.tensors import parts_of

if TYPE_CHECKING:
    from unidev.contract import Device

STREAM_ORDERED = frozenset({"cuda", "xpu"})
"""Devices whose allocator gives freed memory to later work of the stream that it is from."""


def is_initialized(module: Any) -> bool:
    """Whether torch has initialised the accelerator and will not count its devices again."""
    answer = getattr(module, "is_initialized", None)
    return answer is not None and bool(answer())


def has_work(device: Device) -> bool:
    """Whether anything can be queued on the GPU: on CUDA, whether the process has a context there.

    Waiting for a device without one would create it, and take hundreds of megabytes of the card.
    """
    native = device.native
    if native.type != "cuda":
        return True
    bindings: Any = torch._C  # a build without CUDA lacks the function
    return is_initialized(torch.cuda) and bool(bindings._cuda_hasPrimaryContext(native.index))


@lru_cache(maxsize=1)
def is_driver_too_old() -> bool:
    """Whether CUDA would refuse NVIDIA's driver, which counts its cards all the same.

    By the version that the driver reports; asking CUDA would spoil a later fork. CUDA takes every
    driver of its own major version, and newer ones. False where there is no answer, and on ROCm.
    """
    built_for, driver = torch.version.cuda, driver_cuda_version()
    return built_for is not None and driver is not None and driver[0] < int(built_for.split(".")[0])


def keep_until_read(x: torch.Tensor) -> None:
    """Keep the memory of ``x``, if it is dropped, until work queued now has read it.

    The allocator would give it to the next tensor of the stream in which ``x`` was created, though
    the copy runs in the current stream. Does nothing where they are the same one.
    """
    if not (x.is_cuda or x.is_xpu) or torch.compiler.is_compiling():
        return
    while is_wrapped(x):  # by torch.vmap, torch.func.grad and the like
        x = unwrapped(x)
    stream = torch.accelerator.current_stream(x.device.index)
    for part in (x,) if type(x) is torch.Tensor and _is_dense(x) else parts_of(x) or (x,):
        part.record_stream(stream)


def _is_dense(x: torch.Tensor) -> bool:
    return x.layout is torch.strided and not x.is_nested
