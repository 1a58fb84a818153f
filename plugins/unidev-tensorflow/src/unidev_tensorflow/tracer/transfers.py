"""Where TensorFlow's tensors are, and the transfer when they go elsewhere."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf  # type: ignore[import-untyped]

from unidev.contract import PlannedTransfer
from unidev_tensorflow.tensors import EAGER
from unidev_tensorflow.tracer.names import called

if TYPE_CHECKING:
    from unidev.contract import Backend, Device

_HANDLES = (tf.resource, tf.variant)
ON_HOST = (tf.int32, tf.string)
"""Dtypes that TensorFlow keeps in the host's memory, even for GPUs."""
_MAKERS = {"Variable.__init__", "tf.constant", "tf.convert_to_tensor"}
"""A user's calls that make a tensor; others may make an axis or a shape of TensorFlow's."""


class Sight:
    """Finds where memory is: ``backing_device``, which for ``ON_HOST`` differs from ``device``."""

    def __init__(self, backend: Backend) -> None:
        self.cpu = backend.cpu
        self.is_simulated = backend.simulated_count > 0
        self._backend = backend
        self._devices: dict[str, Device | None] = {}

    def device_named(self, name: str) -> Device | None:
        """Our device by TensorFlow's full name; None if it belongs to another process."""
        if name not in self._devices:
            found = self._backend.parse_native(name) if name else None
            self._devices[name] = None if found is None else self._backend.device(*found)
        return self._devices[name]

    def default(self, name: str | None) -> Device | None:
        """Where an operation runs in a scope called ``name``, or without one."""
        if name:
            return self.device_named(name)
        if not self.is_simulated and self._backend.device_count("gpu"):
            return self._backend.device("gpu", 0)
        return self.cpu

    def device_of(self, x: Any) -> Device | None:
        """Where the memory of a tensor or variable is; None if it has no memory."""
        if isinstance(x, tf.Variable):
            x = getattr(x, "_handle", None)
        elif isinstance(x, EAGER) and x.dtype in _HANDLES:
            return None
        return self.device_named(x.backing_device) if isinstance(x, EAGER) else None

    def device_read(self, x: Any, is_direct: bool) -> Device | None:
        """Where ``x`` is read from, by the user's call or by one of TensorFlow's own."""
        if x.dtype in ON_HOST and self.is_taken_along(x.dtype, is_direct):
            return self.device_named(x.device)
        return None if x.dtype in ON_HOST and self.is_simulated else self.device_of(x)

    def is_taken_along(self, dtype: Any, is_direct: bool) -> bool:
        """Whether a tensor of a dtype in ``ON_HOST`` still counts as on its ``device``.

        On simulated GPUs int32 is an ordinary dtype, as far as the user's own calls go.
        """
        return bool(self.is_simulated and is_direct and dtype == tf.int32)

    def sent(
        self, value: Any, dtype: Any, name: str | None, operation: str
    ) -> list[PlannedTransfer]:
        """The transfer of a NumPy array or a list from the host to a scope's device."""
        target = self.default(name)
        if target is None or target is self.cpu:
            return []
        array = _as_array(value)
        if array is None:
            return []
        wanted = tf.as_dtype(_dtype_of(array, value) if dtype is None else dtype)
        name = called(operation)
        if wanted in ON_HOST and not self.is_taken_along(wanted, name in _MAKERS):
            return []
        size = array.size * wanted.size
        return [PlannedTransfer(name, self.cpu, target, size, array.shape)]


def transfer(operation: str, x: Any, source: Device, target: Device) -> PlannedTransfer:
    """The planned transfer of ``x``, a tensor or a variable."""
    shape = tuple(int(length) for length in x.shape)
    return PlannedTransfer(operation, source, target, math.prod(shape) * x.dtype.size, shape)


def _as_array(value: Any) -> Any:
    """None for single numbers, tensors, and other values that are not arrays."""
    if isinstance(value, np.ndarray):
        return value
    if not isinstance(value, (list, tuple)) or any(isinstance(x, tf.Tensor) for x in value):
        return None
    try:
        return np.asarray(value)
    except ValueError:  # ragged: TensorFlow raises the error
        return None


def _dtype_of(array: Any, value: Any) -> Any:
    """TensorFlow converts Python's floats to float32, and its ints to int32."""
    if value is array or array.dtype.kind not in "fi":
        return array.dtype
    return np.float32 if array.dtype.kind == "f" else np.int32
