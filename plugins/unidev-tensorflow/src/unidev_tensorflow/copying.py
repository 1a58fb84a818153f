"""Copies of one plain tensor by TensorFlow's public operations, eagerly and in a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf  # type: ignore[import-untyped]

from unidev.errors import UnsupportedDtypeError, UnsupportedOperation
from unidev_tensorflow.deep_copy.eager import CPU_COPIED, GPU_COPIED

if TYPE_CHECKING:
    from unidev.contract import Device
    from unidev_tensorflow.devices import LocalDevices

_REFERENCES = frozenset({tf.resource, tf.variant})


def copy_plain(x: Any, device: Device, devices: LocalDevices) -> Any:
    """``x``, a tensor or a variable, in new memory on ``device``.

    Raises:
        UnsupportedDtypeError: ``x`` is a handle, and a copy would still share what it refers to.
        UnsupportedOperation: TensorFlow has no kernel for it on that device, and would put it on
        another one.
    """
    dtype = x.dtype
    if dtype in _REFERENCES:
        raise UnsupportedDtypeError(
            f"a tensor of dtype {dtype.name} refers to an object of TensorFlow's runtime: a copy "
            "would share that object."
        )
    name = devices.full_name(device)
    on_host = devices.is_on_host(device)
    if dtype in (CPU_COPIED if on_host else GPU_COPIED):
        with tf.device(name):
            copied = tf.raw_ops.DeepCopy(x=x)
    elif on_host:
        with tf.device(name):
            copied = _gathered(x)
    else:
        # By way of the host: the copy is made there, and gets new memory again on the GPU.
        with tf.device(devices.host_name):
            copied = tf.raw_ops.DeepCopy(x=x) if dtype in CPU_COPIED else _gathered(x)
        with tf.device(name):
            copied = tf.identity(copied)
    check_placed(copied, name, device)
    return copied


def check_placed(made: Any, name: str, device: Device) -> None:
    """Refuse a tensor that soft placement put elsewhere; in a graph, nothing is placed yet.

    Raises:
        UnsupportedOperation: it is not on ``device``.
    """
    if isinstance(made, tf.__internal__.EagerTensor) and made.device != name:
        raise UnsupportedOperation(
            f"a {made.dtype.name} tensor on {device}",
            f"TensorFlow has no kernel for it there, and put it on {made.device}",
        )


def _gathered(x: Any) -> Any:
    """The path for quantized and 8-bit floating-point numbers, which ``DeepCopy`` refuses."""
    flat = tf.reshape(x, [-1])
    try:
        copied = tf.gather(flat, tf.range(tf.size(flat, out_type=tf.int64)))
    except tf.errors.NotFoundError:
        # TensorFlow has no operations for 4-bit numbers and the rarer 8-bit ones; it does read them
        # from NumPy, which copies.
        return tf.constant(x.numpy(), dtype=x.dtype)
    return tf.reshape(copied, tf.shape(x))
