"""The attributes of TensorFlow and NumPy that are replaced while a scope is open in any thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from tensorflow.python import pywrap_tfe  # type: ignore[import-untyped]
from tensorflow.python.framework import constant_op  # type: ignore[import-untyped]

from unidev.contract import Patches
from unidev_tensorflow.tensors import EAGER
from unidev_tensorflow.tracer.operations import Operations
from unidev_tensorflow.tracer.readings import Readings
from unidev_tensorflow.tracer.transfers import Sight

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unidev.contract import Backend
    from unidev_tensorflow.tracer.recording import TensorFlowRecording

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
