"""The scope of a tensor's device, since TensorFlow computes on CPU:0 unless a scope differs."""

from __future__ import annotations

import contextlib
from typing import Any

import tensorflow as tf  # type: ignore[import-untyped]

from unidev_tensorflow.tensors import DISTRIBUTED, EAGER, is_symbolic

_NOWHERE = contextlib.nullcontext()


def scope_of(x: Any) -> Any:
    """``tf.device`` for the device of ``x``, a tensor or a variable; no scope if it is symbolic.

    Nor for a variable that a strategy has mirrored: that computes on the replica's device.
    """
    if type(x) is EAGER:
        return tf.device(x.device)
    value = getattr(x, "_value", x)  # Keras's variable holds one of TensorFlow's
    if isinstance(value, DISTRIBUTED) or is_symbolic(value):
        return _NOWHERE
    return tf.device(value.device)
