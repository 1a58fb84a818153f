"""TensorFlow's variables: finding them, and exchanging the memory of two."""

from __future__ import annotations

import weakref
from typing import Any

import tensorflow as tf  # type: ignore[import-untyped]
from tensorflow.python.eager import context  # type: ignore[import-untyped]

from unidev_tensorflow.tensors import is_keras_variable


def native_variable(x: Any) -> Any:
    """TensorFlow's variable behind one of Keras's; anything else is returned unchanged."""
    return x._value if is_keras_variable(x) else x


class Twin:
    """A variable's handle for ``swap_handles``, made in half the time of a variable.

    Its handle is like that of ``variable``, on the device of the scope that it is made in, and
    holds ``value``, whose memory it shares.
    """

    def __init__(self, variable: Any, value: Any) -> None:
        handle = variable._handle
        # The name has TensorFlow free the memory with the last reference, as for its own variables.
        made = tf.raw_ops.VarHandleOp(
            dtype=variable.dtype, shape=variable.shape, shared_name=context.anonymous_name()
        )
        made._handle_data = handle._handle_data  # of shape and dtype, for functions that trace it
        made._name = handle._name
        made._unique_id = f"{handle._unique_id}_twin"
        made._parent_trackable = weakref.ref(self)
        tf.raw_ops.AssignVariableOp(resource=made, value=value)
        self._handle = made


def swap_handles(one: Any, other: Any) -> None:
    """Exchange the memory of two TensorFlow variables, or of one and a twin; each stays itself.

    ``assign`` under ``tf.device`` moves nothing, and a new variable would orphan the holders of the
    old one: optimizers, Keras's variables, checkpoints. A variable has its memory by a handle,
    and its device is the handle's: exchanging the two handles moves it. This is not a public API.
    Tested on TensorFlow 2.16.2 and 2.21.0 with Keras 3.3 and 3.15; ``tests/test_handles.py`` fails
    first if a version changes this.

    Each handle refers to its variable, which is how an exported function finds it:
    https://github.com/tensorflow/tensorflow/blob/master/tensorflow/python/eager/polymorphic_function/saved_model_exported_concrete.py
    """
    mine, others = one._handle, other._handle
    owners = mine._parent_trackable, others._parent_trackable
    ids = mine._unique_id, others._unique_id
    # Nothing is called from here on, so nothing can interrupt: no error, and no Ctrl-C.
    one._handle, other._handle = others, mine
    others._parent_trackable, mine._parent_trackable = owners
    others._unique_id, mine._unique_id = ids
