"""Reading checkpoints that safetensors has validated: one file, or several.

Several have an index of which file has which tensor.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import xxhash
from safetensors import SafetensorError

from unidev.errors import CheckpointError
from unidev.models.checkpoints.format import (
    DIGEST_KEY,
    FORMAT,
    NAMES,
    NUMBERS_KEY,
    PIECE,
    UNFILLED,
    Entry,
    content_digest,
    decoded,
    nbytes,
    numpy_dtype,
    validate,
)
from unidev.system.arguments import is_path
from unidev.system.wording import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Array = np.ndarray[Any, Any]


INDEX = ".index.json"
"""Ends an index's name, as Hugging Face's libraries write it."""


class CheckpointFile:
    """An open file that safetensors has accepted."""

    def __init__(self, file: IO[bytes], path: str) -> None:
        self._file = file
        self.path = path
        self.damaged = partial(unusable, path)
        self._start = 8 + int.from_bytes(self._bytes(0, 8), "little")
        described = parsed(self._bytes(8, self._start - 8).decode(), "header", self.damaged)
        self.metadata: dict[str, str] = described.pop("__metadata__", None) or {}
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
        """Maps each tied name without an entry of its own to the name that has the entry."""
        self.numbers: dict[str, Any] | None = None
        """The numbers, once they are checked; None if the file records none."""

    @property
    def nbytes(self) -> int:
        """The size of the file."""
        return os.fstat(self._file.fileno()).st_size

    def check(self) -> None:
        """Read the entire file and compare its digest; only files that unidev wrote have one.

        Raises:
            CheckpointError: the digest differs, the format is another, or the tied names are wrong.
        """
        if not any(key.startswith("unidev.") for key in self.metadata):
            return
        version = self.metadata.get("unidev.format")
        if not version:
            raise self.damaged("its metadata has no unidev.format, which unidev always writes")
        if version != str(FORMAT):
            raise self.damaged(
                f"unidev {self.metadata.get('unidev.version')} wrote it in format "
                f"{one_line(version, 20)}, but this unidev reads only format {FORMAT}; install a "
                "newer unidev"
            )
        if self._digest() != self.metadata.get("unidev.digest"):
            raise self.damaged("its content has changed since it was saved: the digest differs")
        self.ties = self._ties()
        if NUMBERS_KEY in self.metadata:
            numbers = parsed(self.metadata[NUMBERS_KEY], "list of numbers", self.damaged)
            try:
                self.numbers = {name: decoded(x) for name, x in numbers.items()}
            except (TypeError, ValueError, OverflowError, RecursionError) as error:
                raise self.damaged(f"a number in its metadata cannot be read ({error})") from error

    def read(self, entry: Entry, buffer: Array) -> Array:
        """Read an entry's values into ``buffer``, a uint8 array that is large enough."""
        if entry.name not in self.entries:  # a number
            return np.array((self.numbers or {})[entry.name], numpy_dtype(entry.dtype))
        part = buffer[: nbytes(entry)]
        self._file.seek(entry.offset)
        if self._file.readinto(part.data) != len(part):  # type: ignore[attr-defined]
            raise self.damaged(f"it ends in the middle of {entry.name!r}")
        held = numpy_dtype(entry.dtype)
        values: Array = part.view(held.newbyteorder("<")).reshape(entry.shape)
        return values.astype(held, copy=False).view(held)  # of native order by name, too

    def digest_of(self, entry: Entry) -> bytes:
        """The ``content_digest`` of an entry's values."""
        if entry.name not in self.entries:
            return content_digest(self.read(entry, np.empty(0, np.uint8)))
        digest = xxhash.xxh3_128()
        for start in range(0, nbytes(entry), PIECE):
            size = min(PIECE, nbytes(entry) - start)
            digest.update(self._bytes(entry.offset + start, size))
        return digest.digest()

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
        # Without `:=`, which TensorFlow's AutoGraph does not know in what a `tf.function` calls.
        for size in iter(partial(self._file.readinto, buffer), 0):  # type: ignore[attr-defined]
            content.update(buffer[:size])
        return content.hexdigest()

    def _ties(self) -> dict[str, str]:
        listed = self.metadata.get("unidev.ties", "{}")
        recorded = parsed(listed, "list of tied names", self.damaged)
        is_of_names = all(
            isinstance(names, list) and all(isinstance(name, str) for name in names)
            for names in recorded.values()
        )
        aliases = [name for names in recorded.values() for name in names] if is_of_names else []
        ours = self.entries.keys()
        if (
            not is_of_names
            or len(set(aliases)) < len(aliases)
            or not recorded.keys() <= ours
            or not ours.isdisjoint(aliases)
        ):
            raise self.damaged("the tied names in its metadata do not match its entries")
        return {name: first for first, names in recorded.items() for name in names}


def parsed(text: str, what: str, damaged: Callable[[str], CheckpointError]) -> dict[str, Any]:
    """A JSON object; ``what`` of the file it is goes into the error.

    Raises:
        CheckpointError: it is not JSON, not an object, or has a name twice.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise damaged(f"a name occurs twice in its {what}")
        return found

    try:
        found = json.loads(text, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise damaged(f"its {what} cannot be read ({error})") from error
    if not isinstance(found, dict):
        raise damaged(f"its {what} is not an object")
    return found


@contextlib.contextmanager
def opened_checkpoint(path: str) -> Iterator[CheckpointFile]:
    """The file at ``path``, validated; it stays the same one even if it is replaced meanwhile.

    Raises:
        OSError: the file cannot be opened.
        CheckpointError: it is not a safetensors file, or is truncated or damaged.
    """
    while True:
        with open(path, "rb", opener=_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise unusable(path, "it is a device, a pipe or a socket, not a file")
            try:
                validate(path)
            except SafetensorError as error:
                problem = f"it is not a safetensors file, or is truncated or damaged ({error})"
                raise unusable(path, problem) from error
            if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                yield CheckpointFile(file, path)
                return


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # else a pipe waits for a writer


def unusable(path: str, problem: str) -> CheckpointError:
    """The error for a file that cannot be trusted."""
    problem = one_line(problem)
    message = f"{path!r} cannot be loaded: {problem}. Nothing was changed."
    return CheckpointError(message, problems=[problem])


class ShardedCheckpoint:
    """Several open files, read as one ``CheckpointFile``."""

    def __init__(self, path: str, shards: Mapping[str, CheckpointFile]) -> None:
        self.path = path
        self.metadata: dict[str, str] = {}
        for shard in shards.values():
            self.metadata |= shard.metadata
        self._shard_of = {name: shard for shard in shards.values() for name in shard.entries}
        self.entries = {name: shard.entries[name] for name, shard in self._shard_of.items()}
        self.ties: dict[str, str] = {}
        self.numbers: dict[str, Any] | None = None
        self._shards = tuple(shards.values())

    @property
    def nbytes(self) -> int:
        """The size of all files."""
        return sum(shard.nbytes for shard in self._shards)

    def check(self) -> None:
        """As of a single file, each of them."""
        for shard in self._shards:
            shard.check()
            self.ties |= shard.ties
            if shard.numbers:
                self.numbers = (self.numbers or {}) | shard.numbers

    def read(self, entry: Entry, buffer: Array) -> Array:
        """As of a single file."""
        return self._shard_of[entry.name].read(entry, buffer)

    def digest_of(self, entry: Entry) -> bytes:
        """As of a single file."""
        return self._shard_of[entry.name].digest_of(entry)


Checkpoint = CheckpointFile | ShardedCheckpoint


@contextlib.contextmanager
def opened(path: str) -> Iterator[Checkpoint]:
    """The checkpoint at ``path``, validated: one file, or an index with all its files.

    Raises:
        OSError: a file cannot be opened.
        CheckpointError: one is damaged, or does not hold what the index says.
    """
    with contextlib.ExitStack() as files:
        if not path.endswith(INDEX):
            yield files.enter_context(opened_checkpoint(path))
            return
        shards: dict[str, CheckpointFile] = {}
        for name, listed in _index(path).items():
            shard = files.enter_context(opened_checkpoint(_beside(path, name)))
            shards[name] = shard
            wrong = sorted(listed ^ shard.entries.keys())
            if wrong:
                lacks = (name, "the index") if wrong[0] in listed else ("the index", name)
                raise unusable(path, f"{lacks[0]} lacks {wrong[0]!r}, which {lacks[1]} has")
        yield ShardedCheckpoint(path, shards)


def _beside(path: str, name: str) -> str:
    """The path of the file ``name`` in the folder of the index at ``path``."""
    file = os.path.join(os.path.dirname(path), name)
    found = Path(os.path.realpath(file))
    # Hugging Face's cache has links to files that are beside the one that its index is a link to.
    homes = [os.path.realpath(os.path.dirname(path)), os.path.dirname(os.path.realpath(path))]
    if not any(found.is_relative_to(home) for home in homes):
        raise unusable(path, f"{name} is a link out of the index's folder, to {str(found)!r}")
    return file


def _index(path: str) -> dict[str, set[str]]:
    """Maps the name of each file, which is in the same folder, to those of its tensors."""
    damaged = partial(unusable, path)
    with open(path, "rb") as file:
        text = file.read().decode(errors="replace")
    named = parsed(text, "index", damaged).get("weight_map")
    if not isinstance(named, dict) or not named:
        raise damaged("it has no weight_map from tensors to files, as an index must have")
    found: dict[str, set[str]] = {}
    for tensor, name in named.items():
        if (
            not isinstance(name, str)
            or not is_path(name)
            or name != os.path.basename(name)
            or not name
        ):
            raise damaged(f"its weight_map has {name!r}, which is not a file's name in its folder")
        found.setdefault(name, set()).add(tensor)
    return found
