"""``convert`` between NumPy and TensorFlow: what TensorFlow would end the process with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import unidev
from unidev.errors import UnsupportedOperation


def aligned(offset: int, count: int = 64) -> np.ndarray[Any, Any]:
    """Numbers that begin so many bytes after a multiple of 64."""
    room = np.zeros(4 * count + 128, np.uint8)
    start = -room.ctypes.data % 64 + offset
    made: np.ndarray[Any, Any] = room[start : start + 4 * count].view(np.float32)
    made[:] = np.arange(count)
    return made


def address(x: Any) -> int:
    return int(np.asarray(x).__array_interface__["data"][0])


@pytest.mark.parametrize("offset", [4, 16, 32])
def test_memory_that_is_not_aligned_is_copied_and_computed_with(offset: int) -> None:
    x = aligned(offset)
    with pytest.raises(UnsupportedOperation, match="not aligned to 64 bytes"):
        unidev.convert(x, "tensorflow", copy=False)
    y = unidev.convert(x, "tensorflow")
    assert float(tf.reduce_sum(y + y)) == 2 * x.sum()


@pytest.mark.parametrize("copy", [None, False, True])
def test_strings_and_composite_tensors_never_get_to_dlpack(copy: bool | None) -> None:
    with pytest.raises(unidev.UnsupportedDtypeError, match="numpy has no dtype"):
        unidev.convert(tf.constant(["a", "b"]), "numpy", copy=copy)
    ragged = tf.ragged.constant([[1.0], [2.0, 3.0]])
    with pytest.raises(UnsupportedOperation, match="RaggedTensor"):
        unidev.convert(ragged, "numpy", copy=copy)
    part: Any = unidev.active_backend().interop
    with pytest.raises(UnsupportedOperation, match="DLPack has no string"):
        part.export(tf.constant(["a"]))


def test_a_variable_gives_the_value_that_it_has_now() -> None:
    variable = tf.Variable([1.0, 2.0])
    y = unidev.convert(variable, "numpy")
    variable.assign([3.0, 4.0])
    assert y.tolist() == [1, 2]
