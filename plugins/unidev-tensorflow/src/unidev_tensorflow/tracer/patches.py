"""The attributes of TensorFlow and NumPy that are replaced while a scope is open in any thread.

And the tracer's state for each thread, besides its open scopes.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
from tensorflow.python import pywrap_tfe  # type: ignore[import-untyped]
from tensorflow.python.framework import constant_op  # type: ignore[import-untyped]

from unidev.contract import Patches, Recording
from unidev_tensorflow.tensors import EAGER
from unidev_tensorflow.tracer.operations import Operations
from unidev_tensorflow.tracer.readings import Readings
from unidev_tensorflow.tracer.transfers import Sight

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from unidev.contract import Backend, Device, PlannedTransfer

_ARRAYS = ("array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray")


class TensorFlowPatches(Patches):
    """Functions that run operations, and those that read, copy or make a tensor."""

    def __init__(self, backend: Backend, recording: TensorFlowRecording) -> None:
        super().__init__()
        self._backend = backend
        self._recording = recording

    def replacements(self) -> Iterator[tuple[Any, str, Any]]:
        """Rebuilt for the first scope, since the devices may have changed."""
        sight = Sight(self._backend)
        operations = Operations(sight, self._recording)
        readings = Readings(sight, self._recording)
        fast = pywrap_tfe.TFE_Py_FastPathExecute
        yield pywrap_tfe, "TFE_Py_FastPathExecute", operations.fast_path(fast)
        for name in ("TFE_Py_Execute", "TFE_Py_ExecuteCancelable"):
            yield pywrap_tfe, name, operations.execute(getattr(pywrap_tfe, name))
        convert = constant_op.convert_to_eager_tensor
        yield constant_op, "convert_to_eager_tensor", readings.filling(convert)
        yield constant_op, "_eager_fill", readings.shaping(constant_op._eager_fill, 0)
        yield constant_op, "_eager_reshape", readings.shaping(constant_op._eager_reshape, 1)
        yield EAGER, "_numpy_internal", readings.reading(EAGER._numpy_internal)
        yield EAGER, "_copy_to_device", readings.copying(EAGER._copy_to_device)
        # Without these, NumPy reads the buffer of an EagerTensor, bypassing all methods.
        yield EAGER, "__array_function__", readings.array_function()
        for name in _ARRAYS:
            yield np, name, readings.array(getattr(np, name))


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
