"""What is in the file of a checkpoint: safetensors' format, and what unidev adds in its metadata.

docs/checkpoints.md describes it.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import safetensors
import xxhash
from safetensors import SafetensorError, safe_open

if TYPE_CHECKING:
    from collections.abc import Iterator

    Array = np.ndarray[Any, Any]

FORMAT = 1
"""A file states the format that it has; a newer one is refused."""

CODES = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "uint16": "U16", "int16": "I16", "uint32": "U32",
    "int32": "I32", "uint64": "U64", "int64": "I64", "float16": "F16", "bfloat16": "BF16",
    "float32": "F32", "float64": "F64", "complex64": "C64",
}  # fmt: skip
"""dtypes by unidev's names, and by safetensors'."""

NAMES = {code: name for name, code in CODES.items()}
UNFILLED = "0" * 32
"""In the place of the digest, while the digest is made."""
DIGEST_KEY = b'"unidev.digest":"'  # within a name, the quotes would have backslashes
PIECE = 4 * 2**20
"""Bytes that are read, hashed or written at a time: they stay in the processor's cache."""

_deserialize: Any = safetensors.deserialize  # safetensors 0.8 has types, and none for this


class Entry(NamedTuple):
    """A tensor as the file has it."""

    name: str
    dtype: str
    """unidev's name, or safetensors' code where unidev has none."""
    shape: tuple[int, ...]
    offset: int = 0
    """Where its bytes begin in the file."""

    @property
    def form(self) -> tuple[str, tuple[int, ...]]:
        """What has to be the same for the values to fit."""
        return self.dtype, self.shape

    def __str__(self) -> str:
        return f"{self.dtype} {self.shape}"


def numpy_dtype(name: str) -> np.dtype[Any]:
    """How the values of a dtype are held on the host: of bfloat16, the bits."""
    return np.dtype("uint16" if name == "bfloat16" else name)


def can_hold(dtype: str | None) -> bool:
    """Whether there is a code for it, which the safetensors that is installed knows."""
    code = CODES.get(dtype or "")
    if code is None:
        return False
    empty = json.dumps({"x": {"dtype": code, "shape": [0], "data_offsets": [0, 0]}}).encode()
    try:
        _deserialize(len(empty).to_bytes(8, "little") + empty)
    except SafetensorError:  # C64 before 0.7
        return False
    return True


def nbytes(entry: Entry) -> int:
    """The length of its values in bytes."""
    return math.prod(entry.shape) * numpy_dtype(entry.dtype).itemsize


def pieces(array: Array) -> Iterator[memoryview]:
    """The bytes of ``array`` in the file's order; of one in another order, a few rows at a time."""
    stored = array.dtype.newbyteorder("<")
    if array.size == 0:
        return
    if array.ndim < 2 or (array.flags.c_contiguous and array.dtype == stored):
        content = np.ascontiguousarray(array, stored).reshape(-1).view(np.uint8).data
        for start in range(0, len(content), PIECE):
            yield content[start : start + PIECE]
        return
    rows = max(1, PIECE * len(array) // array.nbytes)
    for start in range(0, len(array), rows):
        yield from pieces(np.ascontiguousarray(array[start : start + rows], stored))


def content_digest(array: Array) -> bytes:
    """Of the values, in the order in which a file has them."""
    digest = xxhash.xxh3_128()
    for piece in pieces(array):
        digest.update(piece)
    return digest.digest()


def read_metadata(path: str) -> dict[str, str]:
    """What safetensors reads of it, once it has found that header and sizes are in order."""
    with safe_open(path, framework="numpy") as opened:
        return dict(opened.metadata() or {})
