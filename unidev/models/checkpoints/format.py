"""The file format of checkpoints, and writing it: safetensors, with unidev's own metadata.

See docs/checkpoints.md. safetensors' own ``save_file`` needs all tensors in host memory at once,
and the metadata before them. ``write_checkpoint`` holds one tensor at a time and adds the digest;
safetensors then validates the file.
"""

from __future__ import annotations

import json
import math
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xxhash
from safetensors import SafetensorError, safe_open

from unidev.contract.dtypes import DTYPES
from unidev.contract.models import is_number
from unidev.errors import UnsupportedOperation
from unidev.system.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    Array = np.ndarray[Any, Any]

FORMAT = 1
"""The version of the format. Each file records its own; newer versions are refused."""

CODES = {name: dtype.code for name, dtype in DTYPES.items() if dtype.code is not None}
"""safetensors' code for each dtype that it has."""

NAMES = {code: name for name, code in CODES.items()}
UNFILLED = "0" * 32
"""Placeholder for the digest while it is computed."""
DIGEST_KEY = b'"unidev.digest":"'  # cannot match inside a name: JSON escapes its quotes
NUMBERS_KEY = "unidev.numbers"
"""Metadata: the numbers of the model that are no tensors."""
PIECE = 4 * 2**20
"""Bytes read, hashed or written at a time; small enough to stay in the CPU's cache."""


class Entry(NamedTuple):
    """A tensor as stored in the file."""

    name: str
    dtype: str
    """unidev's name, or safetensors' code where unidev has none."""
    shape: tuple[int, ...]
    offset: int = 0
    """Where its bytes begin in the file."""

    @property
    def form(self) -> tuple[str, tuple[int, ...]]:
        """Dtype and shape; both must match before values are loaded."""
        return self.dtype, self.shape

    def __str__(self) -> str:
        return f"{self.dtype} {self.shape}"


def metadata(framework: str, ties: Mapping[str, Any], numbers: Mapping[str, Any]) -> dict[str, str]:
    """Unidev's own metadata of a file, but for the digest."""
    return {
        "unidev.format": str(FORMAT),
        "unidev.version": __version__,
        "unidev.framework": framework,
        "unidev.ties": json.dumps(ties),
        NUMBERS_KEY: json.dumps(numbers),
    }


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype that holds these values on the host; for bfloat16, uint16 with its bits."""
    return np.dtype(DTYPES[name].on_host)


def nbytes(entry: Entry) -> int:
    """The size of the entry's values in bytes."""
    return math.prod(entry.shape) * numpy_dtype(entry.dtype).itemsize


def pieces(array: Array) -> Iterator[memoryview]:
    """Yield the bytes of ``array`` in the file's order, converting a few rows at a time."""
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
    """The digest of the values, in the file's byte order."""
    digest = xxhash.xxh3_128()
    for piece in pieces(array):
        digest.update(piece)
    return digest.digest()


def encoded(number: Any) -> Any:
    """A number in JSON: Python's as such, others as a list of the type and the value."""
    if isinstance(number, np.generic):
        return [number.dtype.name, encoded(number.item())]
    return ["complex", number.real, number.imag] if type(number) is complex else number


def decoded(x: Any) -> Any:
    """The number of ``encoded``.

    Raises:
        TypeError, ValueError, OverflowError: there is no such number.
    """
    if not isinstance(x, list):
        if type(x) not in (bool, int, float):
            raise TypeError(f"{x!r} is no number")
        return x
    kind, *parts = x
    if kind == "complex":
        return complex(*parts)
    dtype = np.dtype(str(kind))
    number = np.array(decoded(*parts), dtype)[()] if dtype.itemsize <= 16 else None
    if not is_number(number):
        raise TypeError(f"{kind!r} is no type of numbers")
    return number


def validate(path: str) -> None:
    """Raise ``SafetensorError`` if safetensors does not accept the file's header and sizes."""
    with safe_open(path, framework="numpy"):
        pass


def write_checkpoint(
    file: IO[bytes],
    entries: Iterable[Entry],
    values: Callable[[Entry], Array],
    metadata: Mapping[str, str],
) -> None:
    """Write all ``entries``, calling ``values`` for one at a time.

    Raises:
        UnsupportedOperation: safetensors does not accept the file.
    """
    # Widest dtype first, so that every entry is aligned to its item size, as in safetensors' own.
    ordered = sorted(entries, key=lambda entry: -numpy_dtype(entry.dtype).itemsize)
    header = _header(ordered, {**metadata, "unidev.digest": UNFILLED})
    digest = xxhash.xxh3_128(header)
    file.write(header)
    for entry in ordered:
        for piece in pieces(values(entry)):
            digest.update(piece)
            file.write(piece)
    file.seek(header.index(DIGEST_KEY) + len(DIGEST_KEY))
    file.write(digest.hexdigest().encode())
    file.flush()
    try:
        validate(file.name)
    except SafetensorError as error:
        raise UnsupportedOperation(
            "saving this model", f"safetensors does not accept the file: {error}"
        ) from error


def _header(entries: Sequence[Entry], metadata: Mapping[str, str]) -> bytes:
    described: dict[str, Any] = {"__metadata__": dict(metadata)}
    end = 0
    for entry in entries:
        start, end = end, end + nbytes(entry)
        described[entry.name] = {
            "dtype": CODES[entry.dtype], "shape": entry.shape, "data_offsets": (start, end),
        }  # fmt: skip
    text = json.dumps(described, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text
