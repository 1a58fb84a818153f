"""PyTorch's memory for other frameworks, and theirs in tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.dlpack import from_dlpack

from unidev.contract import Exported, Interop
from unidev.errors import UnsupportedOperation
from unidev_torch import tensors

_CPU = 1
_KINDS = {"cuda": 10 if torch.version.hip else 2, "xpu": 14}
"""DLPack's numbers; tensors of other accelerators are not shared."""


class TorchInterop(Interop):
    """Strided tensors."""

    def export(self, x: torch.Tensor) -> Any:
        """Detached, and as a plain tensor; on the CPU its storage keeps its size from then on."""
        tensors.check_memory(x)
        if x.layout is not torch.strided or x.is_nested or x.is_quantized:
            raise UnsupportedOperation(
                "sharing a tensor", "DLPack has neither sparse nor nested nor quantized ones"
            )
        if type(x) is not torch.Tensor or x.requires_grad:
            tensors.refuse_spread(x, "sharing")
            if not tensors.has_memory(x):
                reason = f"a {type(x).__name__} has no memory"
                raise UnsupportedOperation("sharing a tensor", reason)
            x = x.as_subclass(torch.Tensor)
        if x.is_conj() or x.is_neg():
            raise UnsupportedOperation(
                "sharing a tensor",
                "its conjugate or negative bit is set, so that other frameworks would read other "
                "values; those of x.resolve_conj().resolve_neg() they can",
            )
        # A capsule keeps its tensor, not the storage: `place`, ``x.set_`` and ``x.data = y`` give x
        # another one and would free this (2.13). So the capsule has a tensor of its own.
        x = x.data  # as x.detach(), in two thirds of the time
        if not x.is_cpu:
            return _of_accelerator(x)
        if x.untyped_storage().resizable():
            _keep_from_resizing(x)
        return _OfCpu(x)

    def adopt(self, exported: Any, is_read_only: bool) -> torch.Tensor:  # noqa: ARG002  PyTorch has no read-only tensors
        """``torch.from_dlpack``; of the CPU's memory by the capsule, which needs no questions."""
        if exported.__dlpack_device__()[0] != _CPU:
            return from_dlpack(exported)
        return _from_capsule(exported.__dlpack__())

    def packed(self, x: torch.Tensor) -> torch.Tensor:
        """In C order, with conjugates computed."""
        tensors.check_memory(x)
        plain = x.detach().resolve_conj().resolve_neg()
        return plain.to("cpu", copy=True, memory_format=torch.contiguous_format)


def _keep_from_resizing(x: torch.Tensor) -> None:
    """Let PyTorch refuse to resize the storage of ``x``, whose memory that would free.

    PyTorch has this for storages of the CPU only, and does it in ``numpy`` alone, of which no
    element is needed: NumPy may not have the dtype.
    """
    x.as_strided((0,), (1,)).view(torch.uint8).numpy()


_from_capsule = torch._C._from_dlpack
_to_unversioned = torch._C._to_dlpack
_to_versioned = getattr(torch._C, "_to_dlpack_versioned", None)


class _OfCpu:
    """A tensor on the CPU: PyTorch's own two methods take longer than its making of a capsule."""

    __slots__ = ("_x",)

    def __init__(self, x: torch.Tensor) -> None:
        self._x = x

    def __dlpack__(self, *, max_version: tuple[int, int] | None = None, **_options: object) -> Any:
        if max_version is None or max_version[0] < 1 or _to_versioned is None:
            return _to_unversioned(self._x)
        return _to_versioned(self._x)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU, 0


def _of_accelerator(x: torch.Tensor) -> Exported:
    kind = _KINDS.get(x.device.type)
    if kind is None:
        raise UnsupportedOperation(
            "sharing a tensor", f"DLPack does not know {x.device.type} devices"
        )

    def capsule() -> Any:
        with torch.get_device_module(x.device).device(x.device):  # PyTorch exports from it alone
            return x.__dlpack__()

    return Exported(capsule, (kind, x.device.index))
