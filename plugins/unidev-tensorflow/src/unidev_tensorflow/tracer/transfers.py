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
        """Our device by TensorFlow's full name; None if it belongs to another process.

        For a missing device, the one that soft placement takes instead.
        """
        if name not in self._devices:
            found = self._backend.parse_native(name) if name else None
            if found is not None and self._is_missing(name, *found):
                self._devices[name] = self.default(None)
            else:
                self._devices[name] = None if found is None else self._backend.device(*found)
        return self._devices[name]

    def _is_missing(self, name: str, kind: str, index: int) -> bool:
        is_real_gpu = "GPU:" in name  # TensorFlow's name of a simulated one has "CPU:"
        return (self.is_simulated and is_real_gpu) or index >= self._backend.device_count(kind)

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
        """The transfer of an array or a list from the host to a scope's device."""
        target = self.default(name)
        if target is None or target is self.cpu or not _is_array(value):
            return []
        made = value
        if not isinstance(value, np.ndarray):
            with tf.device("/device:CPU:0"):  # the dtype is known once TensorFlow has converted it
                made = tf.constant(value, dtype)
        wanted = tf.as_dtype(dtype or made.dtype)
        name = called(operation)
        if wanted in ON_HOST and not self.is_taken_along(wanted, name in _MAKERS):
            return []
        shape = tuple(made.shape)
        return [PlannedTransfer(name, self.cpu, target, math.prod(shape) * wanted.size, shape)]


def transfer(operation: str, x: Any, source: Device, target: Device) -> PlannedTransfer:
    """The planned transfer of ``x``, a tensor or a variable."""
    shape = tuple(int(length) for length in x.shape)
    return PlannedTransfer(operation, source, target, math.prod(shape) * x.dtype.size, shape)


def _is_array(value: Any) -> bool:
    """Whether these are several values of the host: not a number, nor a list of tensors.

    TensorFlow calls ``__array__`` of other libraries' arrays, and packs tensors by an operation.
    """
    if isinstance(value, (list, tuple)):
        return not any(isinstance(x, tf.Tensor) for x in value)
    is_number = isinstance(value, np.generic)
    return isinstance(value, range) or (hasattr(value, "__array__") and not is_number)
