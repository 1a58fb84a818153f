"""TensorFlow's variables: getting at them, and exchanging the memory of two."""

from __future__ import annotations

from typing import Any

from unidev_tensorflow.tensors import is_keras_variable


def native_variable(x: Any) -> Any:
    """TensorFlow's variable behind one of Keras's; anything else is given back."""
    return x._value if is_keras_variable(x) else x


def swap_handles(one: Any, other: Any) -> None:
    """Exchange the memory of two variables of TensorFlow; each stays the object it is.

    ``assign`` under ``tf.device`` moves nothing, and a new variable would orphan what holds the old
    one: optimizers, Keras's variables, checkpoints. A variable has its memory by a handle, and its
    device is the handle's: exchanging the two handles moves it. That is no public interface.
    Tried on TensorFlow 2.16.2 and 2.21.0 with Keras 3.3 and 3.15; ``tests/test_handles.py`` fails
    first where a version changes.

    Handles know the variable that they belong to, which is how an exported function finds it:
    https://github.com/tensorflow/tensorflow/blob/master/tensorflow/python/eager/polymorphic_function/saved_model_exported_concrete.py
    """
    mine, others = one._handle, other._handle
    owners = mine._parent_trackable, others._parent_trackable
    ids = mine._unique_id, others._unique_id
    # From here on nothing is called, so that nothing can come between: no error, and no Ctrl-C.
    one._handle, other._handle = others, mine
    others._parent_trackable, mine._parent_trackable = owners
    others._unique_id, mine._unique_id = ids
