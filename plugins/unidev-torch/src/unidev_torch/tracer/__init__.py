"""``TorchTracer``: tells what torch moves between devices, by two modes of the thread.

A dispatch mode sees every operator, also those that autograd runs; a function mode beside it knows
what the user has called. Both are torch's own means, and are the thread's: nothing is patched.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import overrides
from torch.utils import _python_dispatch as dispatching

from unidev.contract import PlannedTransfer, Tracer
from unidev_torch.tracer.modes import Calls, Operators

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from unidev.contract import Backend, Device
    from unidev_torch.tracer.transfers import Move

    Begin = Callable[[PlannedTransfer], Any]
    End = Callable[[Any], None]


_BLIND_SPOTS = {
    "what other threads and processes move, such as the workers of a DataLoader, its pinning "
    "of memory, nn.DataParallel": "torch's modes hold for one thread",
    "what a kernel reads or copies inside itself, such as a check of its arguments or the "
    "hybrid algorithms of torch.linalg": "torch shows an operator whole",
    "what torch.cond, while_loop and the like do inside": "torch runs it without modes",
    "numbers on a device given to torch.Tensor([x, y]) and torch.FloatTensor([x, y])": (
        "torch tells no mode; torch.tensor([x, y]) is seen"
    ),
    "printing in hooks and functions of your own that run in backward": (
        "torch prints without modes, and tells no calls that another call, backward, has made"
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

    @contextmanager
    def watch(self, begin: Begin, end: End) -> Iterator[None]:
        """Two modes; and backward runs in this thread, where a user's line is on the stack."""
        teller = Teller(self.backend, begin, end)
        calls, operators = Calls(teller), Operators(teller)
        _enter(calls, operators)
        try:
            yield
        finally:
            _leave(calls, operators)


class Teller:
    """Tells what moves between unidev's devices: of a tensor on ``meta``, nothing does."""

    def __init__(self, backend: Backend, begin: Begin, end: End) -> None:
        self._backend = backend
        self._begin = begin
        self._end = end
        self.is_quiet = False
        """While a call runs that was told as a whole."""

    def run(
        self, moves: Iterable[Move], name: Callable[[], str], function: Any, args: Any, kwargs: Any
    ) -> Any:
        """What ``function`` gives; ``moves`` are told before it is called."""
        ways = () if self.is_quiet else [(move, *way) for move in moves if (way := self._way(move))]
        if not ways:
            return function(*args, **kwargs)
        operation = name()
        begun = [self._begin(_transfer(operation, *way)) for way in ways]
        try:
            return function(*args, **kwargs)
        finally:
            for each in begun:
                self._end(each)

    def _way(self, move: Move) -> tuple[Device, Device] | None:
        source, target = self._device(move.source), self._device(move.target)
        if source is None or target is None or source is target:
            return None
        return source, target

    def _device(self, native: torch.device) -> Device | None:
        found = self._backend.parse_native(native)
        return None if found is None else self._backend.device(*found)


def _transfer(operation: str, move: Move, source: Device, target: Device) -> PlannedTransfer:
    told = f"{operation} of mixed operands" if move.is_operand else operation
    return PlannedTransfer(told, source, target, move.nbytes, move.shape)


def _enter(calls: Calls, operators: Operators) -> None:
    """Push the modes, but not by ``with``.

    That sets flags of torch's which are the process's: two threads leave them set for ever, and
    torch.compile looks at them.
    """
    open_here = _open_here()
    operators.was_multithreaded = (
        open_here[0].was_multithreaded if open_here else torch._C._is_multithreading_enabled()
    )
    torch._C._set_multithreading_enabled(False)
    overrides._push_mode(calls)  # type: ignore[no-untyped-call]  # torch's
    dispatching._push_mode(operators)


def _leave(calls: Calls, operators: Operators) -> None:
    """Take the modes out, also from under others that were pushed later and stay."""
    _take_out(operators, dispatching._pop_mode, dispatching._push_mode)
    _take_out(calls, overrides._pop_mode, overrides._push_mode)
    if not _open_here():
        torch._C._set_multithreading_enabled(operators.was_multithreaded)


def _open_here() -> list[Operators]:
    stack = dispatching._get_current_dispatch_mode_stack()
    return [mode for mode in stack if isinstance(mode, Operators)]


def _take_out(mode: object, pop: Callable[[], Any], push: Callable[[Any], None]) -> None:
    above = []
    while (top := pop()) is not mode:
        above.append(top)
    for other in reversed(above):
        push(other)
