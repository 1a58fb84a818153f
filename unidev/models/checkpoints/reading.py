"""Reading the file of a checkpoint, once safetensors has found it in order."""

from __future__ import annotations

import contextlib
import json
import os
from typing import IO, TYPE_CHECKING, Any

import xxhash
from safetensors import SafetensorError

from unidev.errors import CheckpointError
from unidev.models.checkpoints.format import (
    DIGEST_KEY,
    FORMAT,
    NAMES,
    PIECE,
    UNFILLED,
    Entry,
    nbytes,
    numpy_dtype,
    read_metadata,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np

    Array = np.ndarray[Any, Any]


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
                NAMES.get(about["dtype"], about["dtype"]),
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
        for start in range(0, nbytes(entry), PIECE):
            size = min(PIECE, nbytes(entry) - start)
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
        filled = DIGEST_KEY + digest
        content = xxhash.xxh3_128(header.replace(filled, DIGEST_KEY + UNFILLED.encode()))
        buffer = memoryview(bytearray(PIECE))
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
                metadata = read_metadata(path)
            except SafetensorError as error:
                problem = f"it is no safetensors file, or is cut short or damaged ({error})"
                said = f"{path!r} cannot be loaded, and nothing was: {problem}."
                raise CheckpointError(said, problems=[problem]) from error
            if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                yield CheckpointFile(file, path, metadata)
                return
