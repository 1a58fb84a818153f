"""Torch's accelerator: looked at without touching it, and copied to and from in its streams."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
from torch._C._functorch import get_unwrapped as unwrapped
from torch._C._functorch import is_functorch_wrapped_tensor as is_wrapped

from unidev.contract import CopyStream, driver_cuda_version, has_one_instance
from unidev_torch.tensors import parts_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unidev.contract import Device

ACCELERATORS = frozenset({"cuda", "hpu", "mps", "mtia", "xpu"})
"""Torch's types of the devices that unidev calls ``gpu``; PrivateUse1 devices count too."""
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


@lru_cache(maxsize=1)
def is_one_instance() -> bool:
    """Whether CUDA has one instance (MIG) of all the cards that torch counts by NVML (2.14)."""
    return torch.version.cuda is not None and has_one_instance(os.environ)


def keep_until_read(x: torch.Tensor, *, is_simulated: bool = False) -> None:
    """Keep the memory of ``x``, if it is dropped, until work queued now has read it.

    The allocator would give it to the next tensor of the stream in which ``x`` was created, though
    the copy runs in the current stream. Does nothing where they are the same one. Simulated devices
    need it where they are late.
    """
    if (
        not (x.is_cuda or x.is_xpu or (is_simulated and not x.is_cpu))
        or torch.compiler.is_compiling()
    ):
        return
    while is_wrapped(x):  # by torch.vmap, torch.func.grad and the like
        x = unwrapped(x)
    stream = torch.accelerator.current_stream(x.device.index)
    for part in parts_of(x) or (x,):
        part.record_stream(stream)


class TorchCopyStream(CopyStream):
    """Two streams of CUDA or XPU: for what comes from the host, and for what is on a device."""

    def __init__(self, native: torch.device) -> None:
        self._native = native
        self._module: Any = torch.get_device_module(native)
        self._from_host, self._between = (self._module.Stream(device=native) for _ in range(2))

    def copy(self, x: torch.Tensor) -> torch.Tensor | None:
        """None for subclasses, for tensors that are not dense, and where autograd would record.

        The device is the current one meanwhile: leaving the block of a stream would else make
        another, and create a context there.
        """
        if type(x) is not torch.Tensor or x.layout is not torch.strided or x.requires_grad:
            return None
        if x.is_cpu:
            with self._module.device(self._native), self._module.stream(self._from_host):
                # Torch keeps pinned memory until the copies from it are done. The host is named, as
                # new tensors go elsewhere inside a scope.
                pinned = torch.empty(x.shape, dtype=x.dtype, device="cpu", pin_memory=True)
                pinned.copy_(x)
                return pinned.to(self._native, non_blocking=True)
        queue = self._module.current_stream(x.device)
        self._between.wait_stream(queue)
        with self._module.device(self._native), self._module.stream(self._between):
            copied = x.to(self._native, non_blocking=True, copy=True)
        queue.wait_stream(self._between)  # before whatever overwrites or frees `x`
        return copied

    def mark(self) -> Any:
        """An event of each stream."""
        return self._from_host.record_event(), self._between.record_event()

    def hand_out(self, mark: Any, tensors: Sequence[torch.Tensor]) -> None:
        """The current stream waits for the events, and keeps the tensors until it has used them."""
        current = self._module.current_stream(self._native)
        for event in mark:
            current.wait_event(event)
        for x in tensors:
            x.record_stream(current)
