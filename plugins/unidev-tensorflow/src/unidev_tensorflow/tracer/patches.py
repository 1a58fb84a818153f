"""Which attributes of TensorFlow's and NumPy's are others while a scope is open in any thread."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
from tensorflow.python import pywrap_tfe  # type: ignore[import-untyped]
from tensorflow.python.framework import constant_op  # type: ignore[import-untyped]

from unidev_tensorflow.tensors import EAGER
from unidev_tensorflow.tracer.operations import Operations
from unidev_tensorflow.tracer.readings import Readings
from unidev_tensorflow.tracer.transfers import Sight

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unidev.contract import Backend

    Patch = tuple[Any, str, Any]

_ARRAYS = ("array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray")
_MISSING = object()


class Patches:
    """Puts them in place for the first scope of all threads, and takes them out after the last."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._lock = threading.Lock()
        self._users = 0
        self._originals: list[Patch] = []

    def start(self) -> None:
        """Put them in place, unless they are."""
        with self._lock:
            if not self._users:
                for owner, name, replacement in list(self._replacements()):
                    self._originals.append((owner, name, vars(owner).get(name, _MISSING)))
                    setattr(owner, name, replacement)
            self._users += 1

    def stop(self) -> None:
        """The other half of ``start``: after the last, all is as it was."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
            for owner, name, original in self._originals:
                if original is _MISSING:
                    delattr(owner, name)
                else:
                    setattr(owner, name, original)
            self._originals.clear()

    def attributes(self) -> list[tuple[Any, str]]:
        """Owner and name of each that is another now."""
        return [(owner, name) for owner, name, _ in self._originals]

    def _replacements(self) -> Iterator[Patch]:
        sight = Sight(self._backend)
        operations, readings = Operations(sight), Readings(sight)
        fast, execute = pywrap_tfe.TFE_Py_FastPathExecute, pywrap_tfe.TFE_Py_Execute
        yield pywrap_tfe, "TFE_Py_FastPathExecute", operations.fast_path(fast)
        for name, original in (
            ("TFE_Py_Execute", execute),
            ("TFE_Py_ExecuteCancelable", pywrap_tfe.TFE_Py_ExecuteCancelable),
        ):
            yield pywrap_tfe, name, operations.execute(original)
        yield (
            constant_op, "convert_to_eager_tensor",
            readings.filling(constant_op.convert_to_eager_tensor),
        )  # fmt: skip
        yield EAGER, "_numpy_internal", readings.reading(EAGER._numpy_internal)
        yield EAGER, "_copy_to_device", readings.copying(EAGER._copy_to_device)
        # Of an EagerTensor NumPy takes the buffer, past all methods, unless asked by these.
        yield EAGER, "__array_function__", readings.array_function()
        for name in _ARRAYS:
            yield np, name, readings.array(getattr(np, name))
