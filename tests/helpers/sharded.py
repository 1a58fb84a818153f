"""Shards of all workers of a run, made in one process."""

from __future__ import annotations

from typing import Any

from unidev.parallel.batches.sharding import Shard, opened


def shards(data: Any, size: int, **options: Any) -> list[Shard]:
    """The shard of each of ``size`` workers, with ``options`` as of ``Group.shard``."""
    given = {"batch_size": None, "shuffle": None, "seed": 3, "last": "pad", **options}
    rows, sharding = opened(data, size, **given)
    return [Shard(rows, sharding, rank, size) for rank in range(size)]
