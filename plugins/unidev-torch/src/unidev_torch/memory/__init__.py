"""Torch's statistics of an accelerator's memory, and pinned host memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from unidev.contract import PeakCounter, unsupported
from unidev.errors import UnsupportedOperation
from unidev_torch.tensors import check_memory

if TYPE_CHECKING:
    from unidev.contract import Backend, Device

_LINK = "https://docs.pytorch.org/docs/stable/torch_cuda_memory.html"


class TorchPeaks(PeakCounter):
    """The counters of ``torch.cuda``, ``torch.xpu`` and the simulated ``torch.sim``."""

    def used_bytes(self, device: Device) -> int:
        """``memory_allocated``."""
        return int(_module(device).memory_allocated(device.index))

    def peak_bytes(self, device: Device) -> int:
        """``max_memory_allocated``."""
        return int(_module(device).max_memory_allocated(device.index))

    def restart(self, device: Device) -> None:
        """``reset_peak_memory_stats``, which fails where torch has not initialised CUDA."""
        module = _module(device)
        if hasattr(module, "init"):
            module.init()
        module.reset_peak_memory_stats(device.index)


def peaks_of(backend: Backend) -> Any:
    """The counters, if torch's accelerator has any."""
    if not backend.device_count("gpu"):
        reason = "it needs a GPU: torch counts the memory of an accelerator, and there is none"
        return unsupported(reason, _LINK)
    return TorchPeaks(backend)


def pinning_of(backend: Backend) -> Any:
    """Pinned memory, if there is an accelerator to pin for, or a simulated one."""
    if not backend.device_count("gpu"):
        reason = "it needs a GPU: torch pins memory only for an accelerator, and there is none"
        return unsupported(reason, _LINK)
    return _pinned


def _pinned(x: torch.Tensor) -> torch.Tensor:
    """``x`` itself if it is pinned, else a copy, which autograd follows."""
    check_memory(x)
    if x.is_pinned():
        return x
    is_plain = type(x) is torch.Tensor or type(x) is torch.nn.Parameter
    if is_plain and x.layout is torch.strided and not x.is_nested:
        return torch.empty_like(x, pin_memory=True).copy_(x)
    return x.pin_memory()  # keeps a subclass, as torchvision's; but fails for expanded tensors


def _module(device: Device) -> Any:
    if device.kind == "cpu":
        raise UnsupportedOperation(
            f"the memory peak of {device}", "torch does not count the CPU's memory", _LINK
        )
    module = torch.get_device_module(device.native)
    if not hasattr(module, "max_memory_allocated"):
        raise UnsupportedOperation(
            f"the memory peak of {device}", f"torch.{device.native.type} does not count it"
        )
    return module
