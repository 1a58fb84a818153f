"""The file of a checkpoint: safetensors' format, with what unidev adds in its metadata.

Written here and not by safetensors' own ``save_file``, which wants all tensors in the host's memory
at once and the metadata before it has seen them: here one tensor is held at a time, and the digest
of all is filled in at the end. safetensors has the last word on what was written, and the first on
what is read. docs/checkpoints.md describes the format.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np
import safetensors
import xxhash
from safetensors import SafetensorError, safe_open

from unidev.errors import CheckpointError, UnsupportedOperation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    Array = np.ndarray[Any, Any]

FORMAT = 1
"""A file states the format that it has; a newer one is refused."""

CODES = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "uint16": "U16", "int16": "I16", "uint32": "U32",
    "int32": "I32", "uint64": "U64", "int64": "I64", "float16": "F16", "bfloat16": "BF16",
    "float32": "F32", "float64": "F64", "complex64": "C64",
}  # fmt: skip
"""dtypes by unidev's names, and by safetensors'."""

_NAMES = {code: name for name, code in CODES.items()}
_UNFILLED = "0" * 32
_DIGEST_KEY = b'"unidev.digest":"'  # within a name, the quotes would have backslashes
_PIECE = 4 * 2**20
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


# -- writing ---------------------------------------------------------------------------------------


def write_checkpoint(
    file: IO[bytes],
    entries: Iterable[Entry],
    values: Callable[[Entry], Array],
    metadata: Mapping[str, str],
) -> None:
    """Write all of ``entries``, asking for the ``values`` of one at a time.

    Raises:
        UnsupportedOperation: safetensors does not take what was written.
    """
    # Wide ones first, so that each begins at a multiple of its width, as safetensors' own do.
    ordered = sorted(entries, key=lambda entry: -numpy_dtype(entry.dtype).itemsize)
    header = _header(ordered, {**metadata, "unidev.digest": _UNFILLED})
    digest = xxhash.xxh3_128(header)
    file.write(header)
    for entry in ordered:
        for piece in _pieces(values(entry)):
            digest.update(piece)
            file.write(piece)
    file.seek(header.index(_DIGEST_KEY) + len(_DIGEST_KEY))
    file.write(digest.hexdigest().encode())
    file.flush()
    try:
        _metadata(file.name)
    except SafetensorError as error:
        raise UnsupportedOperation("saving this model", f"safetensors says: {error}") from error


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


def _pieces(array: Array) -> Iterator[memoryview]:
    """The bytes of ``array`` in the file's order; of one in another order, a few rows at a time."""
    stored = array.dtype.newbyteorder("<")
    if array.size == 0:
        return
    if array.ndim < 2 or (array.flags.c_contiguous and array.dtype == stored):
        content = np.ascontiguousarray(array, stored).reshape(-1).view(np.uint8).data
        for start in range(0, len(content), _PIECE):
            yield content[start : start + _PIECE]
        return
    rows = max(1, _PIECE * len(array) // array.nbytes)
    for start in range(0, len(array), rows):
        yield from _pieces(np.ascontiguousarray(array[start : start + rows], stored))


def nbytes(entry: Entry) -> int:
    """The length of its values in bytes."""
    return math.prod(entry.shape) * numpy_dtype(entry.dtype).itemsize


def content_digest(array: Array) -> bytes:
    """Of the values, in the order in which a file has them."""
    digest = xxhash.xxh3_128()
    for piece in _pieces(array):
        digest.update(piece)
    return digest.digest()


# -- reading ---------------------------------------------------------------------------------------


class CheckpointFile:
    """A file that is open, and in order as far as safetensors can say."""

    def __init__(self, file: IO[bytes], path: str, metadata: Mapping[str, str]) -> None:
        self._file = file
        self.path = path
        self.metadata = metadata
        self._start = 8 + int.from_bytes(self._bytes(0, 8), "little")
        described = json.loads(self._bytes(8, self._start - 8))
        described.pop("__metadata__", None)
        self.entries = {
            name: Entry(
                name,
                _NAMES.get(about["dtype"], about["dtype"]),
                tuple(about["shape"]),
                self._start + about["data_offsets"][0],
            )
            for name, about in described.items()
        }
        self.ties: dict[str, str] = {}
        """The names that have no entry of their own, and that of which they have the values."""

    @property
    def is_ours(self) -> bool:
        """Whether unidev wrote it."""
        return any(key.startswith("unidev.") for key in self.metadata)

    @property
    def nbytes(self) -> int:
        """The length of the file."""
        return os.fstat(self._file.fileno()).st_size

    def check(self) -> None:
        """Read through the whole file: is it what unidev wrote? Another program's cannot be asked.

        Raises:
            CheckpointError: it is not, or of a format that is not known yet.
        """
        if not self.is_ours:
            return
        version = self.metadata.get("unidev.format", "")
        if version.isdecimal() and version != str(FORMAT):
            raise self.damaged(
                f"its format is {version}, of unidev {self.metadata.get('unidev.version')}, and "
                f"this unidev reads {FORMAT}: a newer unidev reads it"
            )
        if self._digest() != self.metadata.get("unidev.digest"):
            raise self.damaged("its content is not what was saved: the digest differs")
        self.ties = self._ties()

    def read(self, entry: Entry, buffer: Array) -> Array:
        """Its values, in ``buffer``: an array of uint8 that is large enough."""
        part = buffer[: nbytes(entry)]
        self._file.seek(entry.offset)
        if self._file.readinto(part.data) != len(part):  # type: ignore[attr-defined]
            raise self.damaged(f"it ended while {entry.name!r} was read")
        held = numpy_dtype(entry.dtype)
        values: Array = part.view(held.newbyteorder("<")).reshape(entry.shape)
        return values.astype(held, copy=False)

    def digest_of(self, entry: Entry) -> bytes:
        """The ``content_digest`` of its values."""
        digest = xxhash.xxh3_128()
        for start in range(0, nbytes(entry), _PIECE):
            size = min(_PIECE, nbytes(entry) - start)
            digest.update(self._bytes(entry.offset + start, size))
        return digest.digest()

    def damaged(self, problem: str) -> CheckpointError:
        """The error for a file that is not to be trusted."""
        said = f"{self.path!r} cannot be loaded, and nothing was: {problem}."
        return CheckpointError(said, problems=[problem])

    def _bytes(self, offset: int, size: int) -> bytes:
        self._file.seek(offset)
        return self._file.read(size)

    def _digest(self) -> str:
        header = self._bytes(0, self._start)
        digest = self.metadata.get("unidev.digest", "").encode()
        filled = _DIGEST_KEY + digest
        content = xxhash.xxh3_128(header.replace(filled, _DIGEST_KEY + _UNFILLED.encode()))
        buffer = memoryview(bytearray(_PIECE))
        self._file.seek(self._start)
        while size := self._file.readinto(buffer):  # type: ignore[attr-defined]
            content.update(buffer[:size])
        return content.hexdigest()

    def _ties(self) -> dict[str, str]:
        said = json.loads(self.metadata.get("unidev.ties", "{}"))
        ties = {name: first for first, names in said.items() for name in names}
        if not set(ties.values()) <= set(self.entries) or set(ties) & set(self.entries):
            raise self.damaged("the tied names in its metadata are not those of its entries")
        return ties


@contextlib.contextmanager
def opened_checkpoint(path: str) -> Iterator[CheckpointFile]:
    """The file at ``path``, which stays the one that it is if another takes its name meanwhile.

    Raises:
        OSError: it cannot be opened.
        CheckpointError: it is no safetensors file, or not the whole of one.
    """
    while True:
        with open(path, "rb") as file:
            try:
                metadata = _metadata(path)
            except SafetensorError as error:
                problem = f"it is no safetensors file, or is cut short or damaged ({error})"
                said = f"{path!r} cannot be loaded, and nothing was: {problem}."
                raise CheckpointError(said, problems=[problem]) from error
            if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                yield CheckpointFile(file, path, metadata)
                return


def _metadata(path: str) -> dict[str, str]:
    """What safetensors reads of it, once it has found that header and sizes are in order."""
    with safe_open(path, framework="numpy") as opened:
        return dict(opened.metadata() or {})
