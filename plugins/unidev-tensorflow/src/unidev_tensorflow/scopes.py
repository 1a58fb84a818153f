"""The scope of a tensor's device, since TensorFlow computes on CPU:0 unless a scope differs."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import tensorflow as tf  # type: ignore[import-untyped]

from unidev.errors import ScopeError
from unidev_tensorflow.tensors import DISTRIBUTED, EAGER, is_symbolic

if TYPE_CHECKING:
    from unidev.contract import Device

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


class NativeScope:
    """``tf.device(name)``, which applies to one thread."""

    def __init__(self, name: str, device: Device) -> None:
        self._scope = tf.device(name)
        self._device = device

    def __enter__(self) -> None:
        self._scope.__enter__()

    def __exit__(self, *exc_info: object) -> None:
        try:
            self._scope.__exit__(*exc_info)
        except RuntimeError as error:
            raise ScopeError(
                f"exit from `with {self._device}:` while a `tf.device(...)` that was entered "
                "inside it is still open, which TensorFlow does not allow: leave that one first. "
                "Until then, TensorFlow's own new tensors may go to another device than unidev's."
            ) from error
