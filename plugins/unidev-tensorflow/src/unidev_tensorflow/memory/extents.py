"""Where the bytes of an eager tensor are."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf  # type: ignore[import-untyped]

from unidev.contract import Extent
from unidev.errors import UnsupportedOperation
from unidev_tensorflow.deep_copy.eager import DTYPES

if TYPE_CHECKING:
    from unidev.contract import Array

# By its name, a function of our own: what is set here must not hold for other libraries' calls.
_get_pointer = ctypes.pythonapi["PyCapsule_GetPointer"]
_get_pointer.restype = ctypes.c_void_p
_get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


_PLAIN = {1: tf.uint8, 2: tf.uint16, 4: tf.uint32}
"""Numbers by their size."""


def extents(x: Any, *, on_host: bool) -> list[Extent]:
    """The address of the eager tensor ``x``, and its length.

    Raises:
        UnsupportedOperation: its elements are strings, each with memory of its own, or
        handles; or it is on a GPU, and has 8-bit floating-point numbers or the like.
    """
    if x.dtype in (tf.string, tf.resource, tf.variant):
        raise UnsupportedOperation(
            f"the address of a {x.dtype.name} tensor",
            "its elements are objects, each with memory of its own",
        )
    if on_host:
        array = host_array(x)
        return [Extent(array.__array_interface__["data"][0], array.nbytes)]
    return [Extent(_dlpack_address(x), x.dtype.size * int(np.prod(x.shape)))]


def host_array(x: Any) -> Array:
    """A NumPy array on the memory of the eager tensor ``x``, if that is host memory."""
    if x.shape.rank:
        return np.asarray(x)
    # For a scalar, TensorFlow returns a number instead of an array, which NumPy refuses for
    # dtypes that it lacks. A reshaped tensor shares the memory.
    with tf.init_scope(), tf.device(x.device):
        return np.asarray(tf.reshape(x, [1])).reshape(())


def _dlpack_address(x: Any) -> int:
    if x.dtype.is_quantized:  # DLPack has no such numbers; a bitcast shares the memory
        with tf.device(x.device):
            x = tf.bitcast(x, _PLAIN[x.dtype.size])
    elif x.dtype not in DTYPES:
        raise UnsupportedOperation(
            f"the address of a {x.dtype.name} tensor",
            "TensorFlow exports no memory of a GPU with such numbers",
        )
    # Nobody consumes the capsule: it frees what it holds when it is collected.
    return capsule_address(tf.experimental.dlpack.to_dlpack(x))


_Words = ctypes.c_uint64 * 6
"""A DLTensor: the address first, and its ``byte_offset`` last."""


def capsule_address(capsule: Any) -> int:
    """The address of the first element of the tensor in a capsule of DLPack; 0 if it has none."""
    words = _Words.from_address(_get_pointer(capsule, b"dltensor"))
    address: int = words[0]
    return address and address + words[5]
