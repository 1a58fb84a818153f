"""``TorchTracer``: reports what torch moves between devices, using two per-thread modes.

A dispatch mode sees every operator, including those that autograd runs; a function mode sees the
user's calls. Both are torch's own means and apply to one thread: nothing is patched.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import torch

from unidev.contract import Recording, Tracer
from unidev_torch import scopes
from unidev_torch.tracer.modes import Calls, Operators
from unidev_torch.tracer.transfers import Sight

if TYPE_CHECKING:
    from unidev.contract import Backend


_BLIND_SPOTS = {
    "transfers in other threads and processes, such as a DataLoader's workers and its pinning "
    "of memory, nn.DataParallel": "torch's modes apply to one thread",
    "what a kernel reads or copies internally, such as a check of its arguments or the "
    "hybrid algorithms of torch.linalg": "torch does not show the inside of an operator",
    "transfers inside torch.cond, while_loop and the like": "torch runs them without modes",
    "numbers on a device given to torch.Tensor([x, y]) and torch.FloatTensor([x, y])": (
        "torch calls no mode for it; torch.tensor([x, y]) is seen"
    ),
    "printing in hooks and functions of your own that run in backward": (
        "torch prints without modes, and does not show calls made inside another call, such as "
        "backward"
    ),
    "replays of a CUDA graph, packages compiled ahead of time, kernels of your own": (
        "they do not call torch's operators"
    ),
    "collectives of torch.distributed": "their library moves the bytes between processes",
    "other libraries that read a tensor's memory, by DLPack or its address": (
        "torch is not involved"
    ),
}


class TorchTracer(Tracer):
    """Sees operators before they run."""

    blind_spots = _BLIND_SPOTS
    index_operations = Tracer.index_operations | {"masked_select", "repeat_interleave"}
    gpu_queries = MappingProxyType({
        "torch.cuda.is_available": torch.cuda, "torch.cuda.device_count": torch.cuda,
        "torch.backends.mps.is_available": torch.backends.mps,
        "torch.xpu.is_available": torch.xpu,
    })  # fmt: skip

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self.recording = TorchRecording(backend)


class TorchRecording(Recording):
    """Keeps the two modes on torch's stacks while a scope of the thread is open.

    Meanwhile backward runs in this thread, so that the user's line is on the stack: see the
    simulator for what that means for OpenMP.
    """

    def __init__(self, backend: Backend) -> None:
        super().__init__()
        sight = Sight(backend)
        self._calls, self._operators = Calls(self, sight), Operators(self, sight)

    def opened(self) -> None:
        """Push the modes."""
        self._was_multithreaded = torch._C._is_multithreading_enabled()
        torch._C._set_multithreading_enabled(False)
        scopes.push_call_mode(self._calls)
        scopes.push_operator_mode(self._operators)

    def closed(self) -> None:
        """Remove the modes, even from under others that were pushed later and stay."""
        scopes.remove_operator_mode(self._operators)
        scopes.remove_call_mode(self._calls)
        torch._C._set_multithreading_enabled(self._was_multithreaded)
