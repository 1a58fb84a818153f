"""The gradient of ``DeepCopy``, which TensorFlow itself does not register."""

from __future__ import annotations

from typing import Any

import tensorflow as tf  # type: ignore[import-untyped]

from unidev_tensorflow.tensors import EAGER


def register_gradient() -> None:
    """Register the gradient of ``DeepCopy``, the identity but for the device, once a process.

    It serves tapes, tf.function, higher orders and, since TensorFlow derives it from there, forward
    mode. Where somebody has registered one already, that one stays.
    """
    try:
        tf.RegisterGradient("DeepCopy")(_gradient)
    except KeyError as error:
        if "DeepCopy" not in str(error):
            raise


def _gradient(operation: Any, upstream: Any) -> Any:
    """``upstream``, brought back to the source's device; where a graph is traced nobody knows it.

    TensorFlow computes the way back wherever the scope is in which it is asked for.
    """
    (x,) = operation.inputs
    eager = isinstance(x, EAGER) and isinstance(upstream, EAGER)
    if not eager or x.device == upstream.device:
        return upstream
    with tf.device(x.device):
        return tf.raw_ops.DeepCopy(x=upstream)
