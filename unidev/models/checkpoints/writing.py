"""Writing checkpoint files.

safetensors' own ``save_file`` needs all tensors in host memory at once, and the metadata before
them. This one holds one tensor at a time and adds the digest; safetensors then validates the file.
"""

from __future__ import annotations

import json
from typing import IO, TYPE_CHECKING, Any

import xxhash
from safetensors import SafetensorError

from unidev.errors import UnsupportedOperation
from unidev.models.checkpoints.format import (
    CODES,
    DIGEST_KEY,
    UNFILLED,
    nbytes,
    numpy_dtype,
    pieces,
    validate,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import numpy as np

    from unidev.models.checkpoints.format import Entry

    Array = np.ndarray[Any, Any]


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
