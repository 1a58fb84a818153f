"""TensorFlow computes on CPU:0 unless a scope says otherwise; here is the scope of a tensor."""

from __future__ import annotations

import contextlib
from typing import Any

import tensorflow as tf  # type: ignore[import-untyped]

from unidev_tensorflow.tensors import DISTRIBUTED, EAGER, is_symbolic

_NOWHERE = contextlib.nullcontext()


def scope_of(x: Any) -> Any:
    """``tf.device`` of where ``x`` is, a tensor or a variable; of a symbolic one, no scope.

    Nor of a variable that a strategy has mirrored: that computes on the replica's device.
    """
    if type(x) is EAGER:
        return tf.device(x.device)
    value = getattr(x, "_value", x)  # Keras's variable has one of TensorFlow's
    if isinstance(value, DISTRIBUTED) or is_symbolic(value):
        return _NOWHERE
    return tf.device(value.device)
