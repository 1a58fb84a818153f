"""Copies of an eager tensor by TensorFlow's public operations, and their gradient."""

from __future__ import annotations

from typing import Any

import tensorflow as tf  # type: ignore[import-untyped]

from unidev_tensorflow.deep_copy.eager import (
    CPU_COPIED,
    CPU_NUMBERS,
    GPU_COPIED,
    GPU_NUMBERS,
    HOSTED,
    are_apart,
    eager_copy,
    first_cpu,
    home_of,
    is_on_host,
)
from unidev_tensorflow.tensors import EAGER


def copied(x: Any, name: str) -> Any:
    """The eager tensor ``x`` in new memory on the device called ``name``, recorded by tapes.

    If TensorFlow lacks a kernel there, the result may be on another device.
    """
    made = eager_copy(x, name, CPU_NUMBERS if is_on_host(name) else GPU_NUMBERS)
    return public_copy(x, name) if made is None else made


def public_copy(x: Any, name: str) -> Any:
    """``copied`` by public operations alone: slower, and for every dtype."""
    home = home_of(name, is_hosted=x.dtype in HOSTED)
    source = x.backing_device
    if source == home:
        made = _copied_there(x, home)
    else:
        made = _brought(x, home)
        if not are_apart(source, home):
            made = _copied_there(made, home)
    return made if made.device == name else _identity(made, name)


def _copied_there(x: Any, name: str) -> Any:
    """``x``, which lies on ``name``, in new memory there."""
    if x.dtype in (CPU_COPIED if is_on_host(name) else GPU_COPIED):
        with tf.device(name):
            return tf.raw_ops.DeepCopy(x=x)
    if is_on_host(name):
        # On the first CPU, where TensorFlow keeps the indices that this makes.
        first = first_cpu(name)
        with tf.device(first):
            made = gathered(_brought(x, first))
        return _identity(made, name)
    return _brought(_brought(x, first_cpu(name)), name)  # by way of the host


def _brought(x: Any, name: str) -> Any:
    """``x`` on the device called ``name``: by an identity, whose input keeps what it brought over.

    So it brings over another handle of the same memory, which is dropped. GPUs have no identity of
    quantized and 8-bit floating-point numbers: ``_copy`` takes them, and is not public.
    """
    if x.dtype not in CPU_COPIED:
        return x._copy(device_name=name)
    return _identity(_identity(x, x.backing_device), name)


def _identity(x: Any, name: str) -> Any:
    with tf.device(name):
        return tf.identity(x)


def gathered(x: Any) -> Any:
    """The path for quantized and 8-bit floating-point numbers, which ``DeepCopy`` refuses."""
    flat = tf.reshape(x, [-1])
    try:
        made = tf.gather(flat, tf.range(tf.size(flat, out_type=tf.int64)))
    except tf.errors.NotFoundError:
        # TensorFlow has no operations for 4-bit numbers and the rarer 8-bit ones; it does read them
        # from NumPy, which copies.
        return tf.constant(x.numpy(), dtype=x.dtype)
    return tf.reshape(made, tf.shape(x))


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
