"""Copies of one plain tensor or variable, eagerly and in a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf  # type: ignore[import-untyped]

from unidev.errors import UnsupportedDtypeError, UnsupportedOperation
from unidev_tensorflow.deep_copy.eager import CPU_COPIED, GPU_COPIED, is_on_host
from unidev_tensorflow.deep_copy.public import copied, gathered

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
    if tf.executing_eagerly():
        made = copied(x.value() if isinstance(x, tf.Variable) else x, name)
    else:
        made = _traced(x, name, devices.host_name)
    check_placed(made, name, device)
    return made


def _traced(x: Any, name: str, host_name: str) -> Any:
    """The copy in a graph, whose runtime moves tensors without keeping what it moved."""
    on_host = is_on_host(name)
    if x.dtype in (CPU_COPIED if on_host else GPU_COPIED):
        with tf.device(name):
            return tf.raw_ops.DeepCopy(x=x)
    # By way of the host: the copy is made there, and gets new memory again on a GPU.
    with tf.device(name if on_host else host_name):
        made = tf.raw_ops.DeepCopy(x=x) if x.dtype in CPU_COPIED else gathered(x)
    with tf.device(name):
        return made if on_host else tf.identity(made)


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
