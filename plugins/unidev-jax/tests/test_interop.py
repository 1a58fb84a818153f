"""``convert`` between NumPy and JAX: what of it is JAX's own."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import unidev


def aligned(dtype):
    held = np.zeros(64, np.uint8 if dtype == "bool" else dtype).astype(dtype)
    start = (-held.ctypes.data % 64) // held.itemsize
    return held[start : start + 8]


@pytest.mark.parametrize("dtype", ["float32", "int64", "complex128"])
def test_aligned_memory_is_shared_also_in_64_bits(dtype):
    x = unidev.convert(aligned(dtype), "jax", copy=False)
    assert isinstance(x, jax.Array)
    assert str(x.dtype) == dtype
    assert not jax.config.jax_enable_x64


def test_memory_that_jax_would_copy_is_refused_in_its_words():
    with pytest.raises(unidev.UnsupportedOperation, match=r"JAX: .*aligned"):
        unidev.convert(aligned("float32")[1:], "jax", copy=False)


def test_numpys_view_of_a_jax_array_is_read_only():
    x = unidev.array([1.0, 2.0], device="cpu")
    view = unidev.convert(x, "numpy", copy=False)
    assert not view.flags.writeable
    assert unidev.convert(x, "numpy", copy=True).flags.writeable
