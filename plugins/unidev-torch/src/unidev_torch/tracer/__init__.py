"""``TorchTracer``: reports what torch moves between devices, by two modes of the thread.

A dispatch mode sees every operator, also those that autograd runs; a function mode beside it sees
what the user has called. Both are torch's own means, and are the thread's: nothing is patched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import overrides
from torch.utils import _python_dispatch as dispatching

from unidev.contract import PlannedTransfer, Recording, Tracer
from unidev_torch.tracer.modes import Calls, Operators

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

    from unidev.contract import Backend, Device
    from unidev_torch.tracer.transfers import Move


_BLIND_SPOTS = {
    "what other threads and processes move, such as the workers of a DataLoader, its pinning "
    "of memory, nn.DataParallel": "torch's modes hold for one thread",
    "what a kernel reads or copies inside itself, such as a check of its arguments or the "
    "hybrid algorithms of torch.linalg": "torch shows an operator whole",
    "what torch.cond, while_loop and the like do inside": "torch runs it without modes",
    "numbers on a device given to torch.Tensor([x, y]) and torch.FloatTensor([x, y])": (
        "no mode is called for it; torch.tensor([x, y]) is seen"
    ),
    "printing in hooks and functions of your own that run in backward": (
        "torch prints without modes, and shows no calls made by another call, such as backward"
    ),
    "replays of a CUDA graph, packages compiled ahead of time, kernels of your own": (
        "they call no operator of torch's"
    ),
    "collectives of torch.distributed": "their library moves the bytes between processes",
    "other libraries that read a tensor's memory, by DLPack or its address": ("torch is not asked"),
}


class TorchTracer(Tracer):
    """Sees operators before they run."""

    blind_spots = _BLIND_SPOTS

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._recording = TorchRecording(backend)

    def watch(
        self, begin: Callable[[PlannedTransfer], Any], end: Callable[[Any], None]
    ) -> AbstractContextManager[None]:
        """See ``Tracer``."""
        return self._recording.scope(begin, end)


class TorchRecording(Recording):
    """Has the two modes on their stacks, while a scope of the thread is open.

    Meanwhile backward runs in this thread, where a user's line is on the stack.
    """

    def __init__(self, backend: Backend) -> None:
        super().__init__()
        self._backend = backend
        self._calls, self._operators = Calls(self), Operators(self)

    def opened(self) -> None:
        """Push the modes.

        Not by ``with``, which sets flags of the process: two threads leave them set for ever, and
        torch.compile looks at them.
        """
        self._was_multithreaded = torch._C._is_multithreading_enabled()
        torch._C._set_multithreading_enabled(False)
        overrides._push_mode(self._calls)  # type: ignore[no-untyped-call]  # torch's
        dispatching._push_mode(self._operators)

    def closed(self) -> None:
        """Take the modes out, also from under others that were pushed later and stay."""
        _take_out(self._operators, dispatching._pop_mode, dispatching._push_mode)
        _take_out(self._calls, overrides._pop_mode, overrides._push_mode)
        torch._C._set_multithreading_enabled(self._was_multithreaded)

    def transfers(
        self, moves: Iterable[Move], operation: Callable[[], str]
    ) -> Sequence[PlannedTransfer]:
        """Those of ``moves`` that go from one device to another: tensors on ``meta`` have none."""
        found = [(move, *way) for move in moves if (way := self._way(move))]
        name = operation() if found else ""
        mixed = f"{name} of mixed operands"
        return [
            PlannedTransfer(
                mixed if move.is_operand else name, source, target, move.nbytes, move.shape
            )
            for move, source, target in found
        ]

    def _way(self, move: Move) -> tuple[Device, Device] | None:
        source, target = self._device(move.source), self._device(move.target)
        if source is None or target is None or source is target:
            return None
        return source, target

    def _device(self, native: torch.device) -> Device | None:
        found = self._backend.parse_native(native)
        return None if found is None else self._backend.device(*found)


def _take_out(mode: object, pop: Callable[[], Any], push: Callable[[Any], None]) -> None:
    above = []
    while (top := pop()) is not mode:
        above.append(top)
    for other in reversed(above):
        push(other)
