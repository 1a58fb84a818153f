"""The tracer's state for each thread, besides its open scopes."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from unidev.contract import Recording

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from unidev.contract import Device, PlannedTransfer


class TensorFlowRecording(Recording):
    """Adds the user's device policy, and the operands that TensorFlow will not send again."""

    def __init__(self) -> None:
        super().__init__()
        self.policy: Any = None
        """The user's device policy while an operation runs under another; else None."""
        self._sent: dict[tuple[int, Device], weakref.ref[Any]] = {}

    def call_with_more(
        self, transfers: Sequence[PlannedTransfer], function: Callable[[], Any]
    ) -> Any:
        """``call``, even within a call that is being reported: this operation moves more."""
        was_muted, self.is_muted = self.is_muted, False
        try:
            return self.call(transfers, function)
        finally:
            self.is_muted = was_muted

    def is_sent(self, x: Any, target: Device) -> bool:
        """Whether ``x`` was reported as an operand that goes to ``target``.

        TensorFlow caches a copy that it has sent with the tensor, and does not send it again:
        ``CopyInputToExpectedDevice``, whose copies are mirrors, in
        https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/common_runtime/eager/execute.cc
        """
        return (id(x), target) in self._sent

    def keep_sent(self, x: Any, target: Device) -> None:
        """Remember it while ``x`` is alive and a scope is open."""
        key, sent = (id(x), target), self._sent
        sent[key] = weakref.ref(x, lambda _: sent.pop(key, None))

    def refused(self, error: BaseException) -> None:
        """Mark the error, else Keras replaces it when it comes out of a layer.

        https://github.com/keras-team/keras/blob/master/keras/src/utils/traceback_utils.py
        """
        error._keras_call_info_injected = True  # type: ignore[attr-defined]

    def closed(self) -> None:
        """Forget what was sent: the next scope reports everything."""
        self._sent.clear()
