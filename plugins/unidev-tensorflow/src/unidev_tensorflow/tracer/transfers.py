"""Where TensorFlow's tensors are, and what moves if they go somewhere else."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import tensorflow as tf  # type: ignore[import-untyped]

from unidev.contract import PlannedTransfer
from unidev_tensorflow.tensors import EAGER

if TYPE_CHECKING:
    from unidev.contract import Backend, Device

_HANDLES = (tf.resource, tf.variant)
ON_HOST = (tf.int32, tf.string)
"""Dtypes that TensorFlow has in the host's memory, also on GPUs."""


class Sight:
    """Looks where the memory is, ``backing_device``, which of ``ON_HOST`` is not ``device``."""

    def __init__(self, backend: Backend) -> None:
        self.cpu = backend.cpu
        self.is_simulated = backend.simulated_count > 0
        self._backend = backend
        self._devices: dict[str, Device | None] = {}

    def device_named(self, name: str) -> Device | None:
        """Ours by TensorFlow's full name; None of another process's."""
        if name not in self._devices:
            found = self._backend.parse_native(name) if name else None
            self._devices[name] = None if found is None else self._backend.device(*found)
        return self._devices[name]

    def default(self, name: str | None) -> Device | None:
        """Where an operation runs in a scope called ``name``, or in none."""
        if name:
            return self.device_named(name)
        if not self.is_simulated and self._backend.device_count("gpu"):
            return self._backend.device("gpu", 0)
        return self.cpu

    def device_of(self, x: Any) -> Device | None:
        """Where the memory of a tensor or variable is; None of what has none."""
        if isinstance(x, tf.Variable):
            x = getattr(x, "_handle", None)
        elif isinstance(x, EAGER) and x.dtype in _HANDLES:
            return None
        return self.device_named(x.backing_device) if isinstance(x, EAGER) else None

    def device_read(self, x: Any, is_direct: bool) -> Device | None:
        """Where ``x`` is read from, by a call of the user's or by one of TensorFlow's own."""
        if x.dtype in ON_HOST and self.is_taken_along(x.dtype, is_direct):
            return self.device_named(x.device)
        return None if x.dtype in ON_HOST and self.is_simulated else self.device_of(x)

    def is_taken_along(self, dtype: Any, is_direct: bool) -> bool:
        """Whether a dtype of ``ON_HOST`` is taken to be where ``device`` says, nevertheless.

        On simulated GPUs int32 is a dtype like any other, as far as the user's own calls go.
        """
        return bool(self.is_simulated and is_direct and dtype == tf.int32)


def transfer(operation: str, x: Any, source: Device, target: Device) -> PlannedTransfer:
    """``x``, a tensor or a variable, as what moves."""
    shape = tuple(int(length) for length in x.shape)
    return PlannedTransfer(operation, source, target, math.prod(shape) * x.dtype.size, shape)
