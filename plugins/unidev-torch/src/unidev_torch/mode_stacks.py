"""Torch's two stacks of modes, of this thread: for public functions, and for operators.

Torch's own ``with`` removes whatever is innermost, and sets flags of the process: two threads can
leave them set for good, and torch.compile reads them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import overrides
from torch.utils import _python_dispatch as dispatching

if TYPE_CHECKING:
    from collections.abc import Callable

push_call_mode: Callable[[Any], None] = overrides._push_mode
push_operator_mode: Callable[[Any], None] = dispatching._push_mode


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
