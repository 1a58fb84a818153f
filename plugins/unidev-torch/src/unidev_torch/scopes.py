"""Torch's default device in a block: of the thread, or of the asynchronous task that entered it.

Torch has two stacks of modes in each thread: for public functions, and for operators. Its own
``with`` removes whatever is innermost, and sets flags of the process, which torch.compile reads and
which two threads can leave set for good. So modes are pushed and removed here.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import torch
from torch import overrides
from torch.utils import _python_dispatch as dispatching
from torch.utils._device import DeviceContext, _device_constructors

from unidev_torch.uncompiled import leave_to_python

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

push_call_mode: Callable[[Any], None] = overrides._push_mode
push_operator_mode: Callable[[Any], None] = dispatching._push_mode
_of_task: ContextVar[tuple[object, ...]] = ContextVar("unidev_torch.scopes", default=())
"""The modes that this task has entered, or that were open where it was created."""


def call_modes() -> list[Any]:
    """The modes for public functions, innermost last."""
    modes: list[Any] = overrides._get_current_function_mode_stack()  # type: ignore[no-untyped-call]
    return modes


def remove_call_mode(mode: object) -> None:
    """Remove ``mode``, even from under others that stay."""
    _remove(mode, call_modes(), overrides._pop_mode, push_call_mode)


def remove_operator_mode(mode: object) -> None:
    """Remove ``mode``, even from under others that stay."""
    stack = dispatching._get_current_dispatch_mode_stack()
    _remove(mode, stack, dispatching._pop_mode, push_operator_mode)


def _remove(
    mode: object, stack: list[Any], pop: Callable[[], Any], push: Callable[[Any], None]
) -> None:
    if all(each is not mode for each in stack):  # somebody has popped it, or torch is running it
        return
    above = []
    while (top := pop()) is not mode:
        above.append(top)
    for other in reversed(above):
        push(other)


# The compiler's own modes lie on the stack while it follows.
leave_to_python(remove_call_mode, remove_operator_mode, _remove)


class NativeScope:
    """``with torch.device(...)``; that one ends whatever mode of the thread is innermost."""

    def __init__(self, device: torch.device) -> None:
        self.follows_tasks = asyncio._get_running_loop() is not None
        """Torch's modes are the thread's. Outside of tasks, its own is quicker, and it compiles."""
        self._mode = (_OfTask if self.follows_tasks else DeviceContext)(device)

    def __enter__(self) -> None:
        push_call_mode(self._mode)
        if self.follows_tasks:
            _of_task.set((*_of_task.get(), self._mode))

    def __exit__(self, *exc_info: object) -> None:
        remove_call_mode(self._mode)
        if self.follows_tasks:
            _of_task.set(tuple(each for each in _of_task.get() if each is not self._mode))


class _OfTask(DeviceContext):
    """Leaves calls of other tasks, which it gets as well, as they are."""

    @property
    def device(self) -> torch.device:
        """Read by ``torch.get_default_device``, from the innermost mode: this task's default."""
        own = _of_task.get()
        for mode in reversed(call_modes()):
            if isinstance(mode, _OfTask):
                if mode in own:
                    return mode._own_device
            elif isinstance(mode, DeviceContext):
                return mode.device
        return torch.device("cpu")

    @device.setter
    def device(self, device: torch.device) -> None:
        self._own_device = device

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        is_made = func in _device_constructors() and given.get("device") is None
        if is_made and self in _of_task.get():
            given = {**given, "device": self._own_device}
        return func(*args, **given)


class Made(overrides.TorchFunctionMode):
    """Reports the results of public functions while it is entered; see ``Backend.watch_made``."""

    def __init__(self, made: Callable[[Any, Sequence[Any] | None], None]) -> None:
        super().__init__()
        self._made = made

    def __exit__(self, *exc_info: object) -> None:
        remove_call_mode(self)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call ``func``; an error shows its operands in this frame."""
        __tracebackhide__ = True
        given = kwargs or {}
        result = func(*args, **given)
        if not torch.compiler.is_compiling():
            is_new = func in _device_constructors() and given.get("device") is None
            self._made(result, None if is_new else (*args, *given.values()))
        return result
