"""Copies in a stream of their own, from pinned memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from unidev.contract import CopyStream

if TYPE_CHECKING:
    from collections.abc import Sequence


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
