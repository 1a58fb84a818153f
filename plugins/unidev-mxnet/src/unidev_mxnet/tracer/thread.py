"""Who watches in this thread, and telling them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from unidev.contract import PlannedTransfer
    from unidev_mxnet.tracer.gradients import Crossing

    Scope = tuple[Callable[[PlannedTransfer], Any], Callable[[Any], None]]


class _Thread(threading.local):
    def __init__(self) -> None:
        self.scopes: list[Scope] = []
        self.is_within = False
        """Whether a call is running that was told: what it calls is a part of it."""
        self.is_in_store = False
        """Whether a KVStore is running, and perhaps an optimizer's Python, called by its C++."""
        self.refused: BaseException | None = None
        """What a scope raised meanwhile: ctypes prints what its callbacks raise, and drops it."""
        self.gradients: dict[str, list[Crossing]] = {}
        """What crossed devices while autograd recorded, by the name of its node in the graph."""


thread = _Thread()


def told(transfers: Sequence[PlannedTransfer], call: Callable[..., Any], *arguments: Any) -> Any:
    """What ``call(*arguments)`` gives, which makes ``transfers``, unless one is forbidden."""
    begun: list[tuple[Callable[[Any], None], Any]] = []
    thread.is_within = True
    try:
        for begin, end in tuple(thread.scopes):
            for transfer in transfers:
                begun.append((end, _allowed(begin, transfer)))  # noqa: PERF401  one may raise
        return call(*arguments)
    finally:
        try:
            for end, token in begun:
                end(token)
        finally:
            thread.is_within = False


def _allowed(begin: Callable[[PlannedTransfer], Any], transfer: PlannedTransfer) -> Any:
    try:
        return begin(transfer)
    except BaseException as error:
        if thread.is_in_store and thread.refused is None:
            thread.refused = error
        raise
