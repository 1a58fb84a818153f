"""Copies of one plain tensor, by TensorFlow's public operations, eager and in a graph."""

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
        UnsupportedDtypeError: a handle to something else, of which a copy would be no copy.
        UnsupportedOperation: TensorFlow has no kernel for it on that device, and would place it
            elsewhere.
    """
    dtype = x.dtype
    if dtype in _REFERENCES:
        raise UnsupportedDtypeError(
            f"a tensor of dtype {dtype.name} refers to something of the runtime's: a copy of it "
            "would share that."
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
        # By way of the host: the copy is made there, and is new memory again on the GPU.
        with tf.device(devices.host_name):
            copied = tf.raw_ops.DeepCopy(x=x) if dtype in CPU_COPIED else _gathered(x)
        with tf.device(name):
            copied = tf.identity(copied)
    check_placed(copied, name, device)
    return copied


def check_placed(made: Any, name: str, device: Device) -> None:
    """Refuse what soft placement has put elsewhere; in a graph, nothing is placed yet.

    Raises:
        UnsupportedOperation: it is not on ``device``.
    """
    if isinstance(made, tf.__internal__.EagerTensor) and made.device != name:
        raise UnsupportedOperation(
            f"a {made.dtype.name} tensor on {device}",
            f"TensorFlow has no kernel for it there, and has put it on {made.device}",
        )


def _gathered(x: Any) -> Any:
    """The way for quantized and 8-bit floating-point numbers, which ``DeepCopy`` refuses."""
    flat = tf.reshape(x, [-1])
    try:
        copied = tf.gather(flat, tf.range(tf.size(flat, out_type=tf.int64)))
    except tf.errors.NotFoundError:
        # For 4-bit numbers and the rarer 8-bit ones TensorFlow computes nothing at all; it reads
        # them in from NumPy, which copies.
        return tf.constant(x.numpy(), dtype=x.dtype)
    return tf.reshape(copied, tf.shape(x))
