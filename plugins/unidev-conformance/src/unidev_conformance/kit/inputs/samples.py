"""Host arrays to make tensors from: sizes, alignments, and bits that a careless copy changes."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

SIZES = (1, 4, 1_000, 1_000_000)
ALIGNMENTS = (0, 4)
"""Bytes past a multiple of 64: JAX adopts an aligned array's memory, and copies any other."""
BIG_BYTES = 8 * 2**20
"""Far above allocators' caches, and above every "copy only if it is large"."""


def counting(shape: tuple[int, ...] = (2, 3), dtype: str = "float32") -> Array:
    """Neighbours differ, and every dtype holds the values exactly."""
    return np.resize(np.arange(1, 114).astype(dtype), shape)


def big() -> Array:
    """``BIG_BYTES`` of them, on two axes."""
    return counting((2, BIG_BYTES // 2 // 4))


def aligned(values: Array, offset: int) -> Array:
    """The same values in C order, ``offset`` bytes past a multiple of 64."""
    room = np.empty(values.nbytes + 64 + offset, dtype=np.uint8)
    start = -room.ctypes.data % 64 + offset
    placed = room[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    placed[...] = values
    return placed  # type: ignore[no-any-return]  # NumPy types a view as Any


_FLOAT_BITS = {
    "float16": ("uint16", (0x7E01, 0x7C01, 0xFE55, 0x8000, 0x0001, 0x83FF, 0x7C00, 0xFC00, 0x7BFF)),
    "float32": (
        "uint32",
        (
            0x7FC12345, 0x7F800001, 0xFFC54321, 0x80000000, 0x00000001, 0x807FFFFF,
            0x7F800000, 0xFF800000, 0x7F7FFFFF,
        ),
    ),
    "float64": (
        "uint64",
        (
            0x7FF8123456789ABC, 0x7FF0000000000001, 0xFFF8CBA987654321, 0x8000000000000000,
            0x0000000000000001, 0x800FFFFFFFFFFFFF, 0x7FF0000000000000, 0xFFF0000000000000,
            0x7FEFFFFFFFFFFFFF,
        ),
    ),
}  # fmt: skip
"""Quiet, signalling and negative NaN with payloads, -0.0, the smallest and the largest subnormal
(the latter negative), both infinities, and the largest number."""

_COMPLEX_PARTS = {"complex64": "float32", "complex128": "float64"}


_BFLOAT16_BITS = (0x7FC1, 0xFFC5, 0x8000, 0x0001, 0x807F, 0x7F80, 0xFF80, 0x7F7F)
"""As of the others, without signalling NaNs: they become quiet as float32 becomes bfloat16."""


def telling_bits(dtype: str) -> Array:
    """Values of ``dtype`` that reveal any changed bit; of bfloat16 as float32, which NumPy has."""
    if dtype == "bfloat16":
        return (np.array(_BFLOAT16_BITS, np.uint32) << 16).view(np.float32)
    if dtype in _FLOAT_BITS:
        bits, patterns = _FLOAT_BITS[dtype]
        return np.array(patterns, dtype=bits).view(dtype)
    if dtype in _COMPLEX_PARTS:
        parts = telling_bits(_COMPLEX_PARTS[dtype])
        return np.concatenate([parts, parts[::-1]]).view(dtype)
    if dtype == "bool":
        return np.array([True, False, False, True])
    limits = np.iinfo(dtype)
    # 2**53 + 1 is the first integer missing from float64, 2**24 + 1 from float32.
    inner = [n for n in (2**24 + 1, 2**53 + 1) if n <= limits.max]
    return np.array([limits.min, limits.max, 0, 1, *inner], dtype=dtype)


def is_numpy_dtype(name: str) -> bool:
    """Whether NumPy itself has a dtype of that name; it has no ``bfloat16``."""
    try:
        return np.dtype(name).kind in "biufc"
    except TypeError:
        return False
