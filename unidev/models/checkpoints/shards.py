"""A checkpoint in several safetensors files, with an index of which file has which tensor."""

from __future__ import annotations

import contextlib
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unidev.models.checkpoints.reading import CheckpointFile, opened_checkpoint, parsed, unusable
from unidev.system.arguments import is_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np

    from unidev.models.checkpoints.format import Entry

    Array = np.ndarray[Any, Any]

INDEX = ".index.json"
"""Ends an index's name, as Hugging Face's libraries write it."""


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
