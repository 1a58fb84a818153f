"""Mutants of PyTorch's backend that only CUDA shows: ``UNIDEV_PLUGINS=broken_on_cuda:NAME``.

As ``mutants``, which are judged on simulated devices.
"""

from __future__ import annotations

from typing import Any

from mutants.mutant import TORCH, mutant, replace, replace_value


@mutant("queued.read_at_once", plugin=TORCH, simulated_count=0)
def copies_to_the_host_are_pending(backend: Any) -> None:
    """``x.to("cpu", non_blocking=True)``, which nothing that reads host memory waits for."""
    copy = backend.copy_to

    @replace(backend)
    def copy_to(self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        if non_blocking and device.kind == "cpu" and x.is_cuda:
            return x.to("cpu", non_blocking=True, copy=True)
        return copy(self, x, device, non_blocking)


@mutant("queued.source_changed_at_once", plugin=TORCH, simulated_count=0)
def pinned_sources_are_read_later(backend: Any) -> None:
    """``x.to(device, non_blocking=True)`` of pinned memory, which the copy goes on reading."""
    copy = backend.copy_to

    @replace(backend)
    def copy_to(self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        if non_blocking and device.kind == "gpu" and x.is_pinned():
            return x.to(device.native, non_blocking=True, copy=True)
        return copy(self, x, device, non_blocking)


@mutant("queued.side_stream", plugin=TORCH, simulated_count=0)
def sources_are_not_recorded(backend: Any) -> None:
    """Without ``record_stream``, a source that is dropped is overwritten while it is read."""
    from unidev_torch import accelerator

    replace_value(accelerator, "keep_until_read", lambda x, *, is_simulated: None)


@mutant("contexts.looking_makes_none", plugin=TORCH, simulated_count=0)
def waiting_makes_contexts(backend: Any) -> None:
    """``torch.accelerator.synchronize`` of a device that nothing has used."""
    import torch

    replace_value(
        backend,
        "synchronize",
        lambda self, device: device.kind == "gpu" and torch.accelerator.synchronize(device.native),
    )


@mutant("cards.contexts_of_work", plugin=TORCH, simulated_count=0, profile="hardware")
def copies_pass_by_the_first_gpu(backend: Any) -> None:
    """Pinned memory, or a stream, that is made on ``cuda:0`` for a copy to any GPU."""
    import torch

    copy = backend.copy_to

    @replace(backend)
    def copy_to(self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        if device.kind == "gpu":
            torch.empty(1, device="cuda:0")
        return copy(self, x, device, non_blocking)


@mutant("cards.memory_is_the_drivers", plugin=TORCH, simulated_count=0, profile="hardware")
def what_others_hold_is_free(backend: Any) -> None:
    """Free memory is the total less this process's tensors."""
    read = backend.memory

    @replace(backend)
    def memory(self: Any, device: Any) -> Any:
        found = read(self, device)
        return found._replace(free_bytes=found.total_bytes - found.used_bytes)
