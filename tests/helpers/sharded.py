"""Shards of all workers of a run, made in one process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unidev.parallel.batches.sharding import Shard, opened

if TYPE_CHECKING:
    from collections.abc import Callable


def shards(data: Any, size: int, **options: Any) -> list[Shard]:
    """The shard of each of ``size`` workers, with ``options`` as of ``Group.shard``."""
    given = {"batch_size": None, "shuffle": None, "seed": 3, "last": "pad", **options}
    rows, sharding = opened(data, size, **given)
    return [Shard(rows, sharding, rank, size) for rank in range(size)]


def check_shuffled(own: list[Shard], numbers: Callable[[Shard], list[list[int]]]) -> None:
    """Two workers share two batches of four of eleven rows, in another order for each epoch."""
    epochs = [[[*a, *b] for a, b in zip(*map(numbers, own), strict=True)] for _ in range(2)]
    for epoch in epochs:
        assert [len(batch) for batch in epoch] == [4, 4]
        assert len({row for batch in epoch for row in batch}) == 8
    assert epochs[0] != epochs[1]
