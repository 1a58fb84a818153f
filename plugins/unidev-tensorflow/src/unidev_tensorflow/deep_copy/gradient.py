"""The gradient of ``DeepCopy``, which TensorFlow does not register."""

from __future__ import annotations

from typing import Any

import tensorflow as tf  # type: ignore[import-untyped]

from unidev_tensorflow.deep_copy.public import copied
from unidev_tensorflow.tensors import EAGER


def register_gradient() -> None:
    """Register the gradient of ``DeepCopy``, once per process: the identity, except for the device.

    It serves tapes, tf.function, higher orders and, since TensorFlow derives it from there, forward
    mode. A gradient that is registered already is kept.
    """
    try:
        tf.RegisterGradient("DeepCopy")(_gradient)
    except KeyError as error:
        if "DeepCopy" not in str(error):
            raise


def _gradient(operation: Any, upstream: Any) -> Any:
    """``upstream``, copied back to the source's device; unknown while a graph is traced.

    TensorFlow computes gradients in the scope in which they are requested.
    """
    (x,) = operation.inputs
    eager = isinstance(x, EAGER) and isinstance(upstream, EAGER)
    if not eager or x.device == upstream.device:
        return upstream
    return copied(upstream, x.device)
