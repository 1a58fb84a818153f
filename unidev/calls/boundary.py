"""The seam between unidev's own verbs and whatever watches them: one attribute of the thread.

Where nothing watches, that is all that a transfer pays; the fast paths do not even look.
"""

from __future__ import annotations

from unidev.registry.observer import thread

TYPE_CHECKING = False  # not typing's: importing that takes as long as all of unidev
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from unidev.contract.backend import Backend
    from unidev.contract.device import Device

    T = TypeVar("T")


def carried(  # noqa: PLR0913  what is told, and what is called
    operation: str,
    x: Any,
    target: Device,
    backend: Backend,
    function: Callable[..., T],
    *arguments: Any,
    is_explicit: bool = True,
) -> T:
    """What ``function(*arguments)`` gives, which carries tensor ``x`` to ``target``."""
    recorder = thread.recorder
    if recorder is None:
        return function(*arguments)
    from unidev.calls.transfers import of_tensor

    moved = of_tensor(operation, x, target, backend)
    return recorder.own_call(operation, moved, is_explicit, function, *arguments)


def filled(
    operation: str, x: Any, backend: Backend, function: Callable[..., T], *arguments: Any
) -> T:
    """What ``function(*arguments)`` gives, which fills ``x`` with values from the host."""
    recorder = thread.recorder
    if recorder is None:
        return function(*arguments)
    from unidev.calls.transfers import into_tensor

    moved = into_tensor(operation, x, backend)
    return recorder.own_call(operation, moved, True, function, *arguments)


def named(operation: str, function: Callable[..., T], *arguments: Any) -> T:
    """What ``function(*arguments)`` gives, a verb that itself tells what it moves, by its name.

    What is told by another name meanwhile, by a verb that it uses or by a tracer, is its own.
    """
    recorder = thread.recorder
    if recorder is None:
        return function(*arguments)
    return recorder.own_call(operation, (), True, function, *arguments)


def quiet(function: Callable[..., T], *arguments: Any) -> T:
    """What ``function(*arguments)`` gives, which is unidev's own and moves nothing to be told."""
    return named("", function, *arguments)
