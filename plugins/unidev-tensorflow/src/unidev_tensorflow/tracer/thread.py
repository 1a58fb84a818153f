"""Who watches in this thread, and telling them."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from unidev.contract import Device, PlannedTransfer

    Scope = tuple[Callable[[PlannedTransfer], Any], Callable[[Any], None]]


class _Thread(threading.local):
    def __init__(self) -> None:
        self.scopes: list[Scope] = []
        self.is_within = False
        """Whether a call is running that was told: what it calls is a part of it."""
        self.policy: Any = None
        """The user's device policy while an operation runs under another; else None."""
        self._sent: dict[tuple[int, Device], weakref.ref[Any]] = {}

    def leave(self, scope: Scope) -> None:
        """Take out the innermost such scope."""
        at = next(at for at in reversed(range(len(self.scopes))) if self.scopes[at] is scope)
        del self.scopes[at]
        if not self.scopes:
            self._sent.clear()

    def is_sent(self, x: Any, target: Device) -> bool:
        """Whether ``x`` was told to go to ``target`` as an operand.

        TensorFlow keeps what it has sent beside the tensor, and does not send it again:
        ``CopyInputToExpectedDevice``, whose copies are mirrors, in
        https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/common_runtime/eager/execute.cc
        """
        return (id(x), target) in self._sent

    def keep_sent(self, x: Any, target: Device) -> None:
        """As long as ``x`` is alive, and a scope is open."""
        key, sent = (id(x), target), self._sent
        sent[key] = weakref.ref(x, lambda _: sent.pop(key, None))


thread = _Thread()


def told(transfers: Sequence[PlannedTransfer], call: Callable[[], Any]) -> Any:
    """What ``call()`` gives, which makes ``transfers``, unless one is forbidden."""
    begun: list[tuple[Callable[[Any], None], Any]] = []
    was_within, thread.is_within = thread.is_within, True
    try:
        for begin, end in tuple(thread.scopes):
            for transfer in transfers:
                begun.append((end, _allowed(begin, transfer)))  # noqa: PERF401  one may raise
        return call()
    finally:
        try:
            for end, token in reversed(begun):
                end(token)
        finally:
            thread.is_within = was_within


def _allowed(begin: Callable[[PlannedTransfer], Any], transfer: PlannedTransfer) -> Any:
    try:
        return begin(transfer)
    except BaseException as error:
        # Keras makes another error of one that comes out of a layer, unless it finds this:
        # https://github.com/keras-team/keras/blob/master/keras/src/utils/traceback_utils.py
        error._keras_call_info_injected = True  # type: ignore[attr-defined]
        raise
