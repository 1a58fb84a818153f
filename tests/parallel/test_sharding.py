"""``Shard``, for workers that are not there, and ``group().shard`` in a group of one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import unidev
from unidev.errors import InvalidDataError
from unidev.parallel.batches.sharding import Shard, opened


def shards(data: Any, size: int, **options: Any) -> list[Shard]:
    given = {"batch_size": 4, "shuffle": None, "seed": 0, "last": "pad", **options}
    rows, sharding = opened(data, size, **given)
    return [Shard(rows, sharding, rank, size) for rank in range(size)]


def read(shard: Shard) -> list[list[int]]:
    return [batch.tolist() for batch in shard]


def test_an_epoch_can_be_read_again() -> None:
    (shard,) = shards(np.arange(20), 1, shuffle=True, seed=1)
    first, second = read(shard), read(shard)
    assert shard.epoch == 2
    assert first != second
    shard.epoch = 1
    assert read(shard) == second
    (other,) = shards(np.arange(20), 1, shuffle=True, seed=2)
    assert read(other) != first
    for wrong in (-1, 0.5, "1", None, True):
        with pytest.raises(InvalidDataError, match="epoch must be a non-negative integer"):
            shard.epoch = wrong


class Row(NamedTuple):
    x: Any
    y: Any


def test_rows_of_a_sequence_are_stacked() -> None:
    rows = [
        {"row": Row(np.full(2, n, "f4"), n), "rate": (n / 2, 1j), "name": str(n), "more": [n, (n,)]}
        for n in range(3)
    ]
    ((batch,),) = (list(shard) for shard in shards(rows, 1))
    assert type(batch["row"]) is Row
    assert batch["row"].x.tolist() == [[0, 0], [1, 1], [2, 2]]
    assert batch["row"].x.dtype == np.float32
    assert batch["row"].y.tolist() == [0, 1, 2]
    assert [x.dtype for x in batch["rate"]] == [np.float32, np.complex64]
    assert batch["name"] == ["0", "1", "2"]
    assert [x.tolist() for x in (batch["more"][0], *batch["more"][1])] == [[0, 1, 2]] * 2


def test_columns_keep_their_structure_and_share_no_memory() -> None:
    data = {"x": np.arange(12.0).reshape(6, 2), "y": unidev.arange(6)}
    first, second = shards(data, 2, batch_size=6)
    ((a,), (b,)) = list(first), list(second)
    assert a["x"].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert unidev.to_numpy(b["y"]).tolist() == [3, 4, 5]
    assert not np.shares_memory(a["x"], data["x"])
    assert not unidev.shares_memory(b["y"], data["y"])


@pytest.mark.parametrize(
    ("data", "options", "words"),
    [
        (iter([1, 2]), {}, "has a length and gives each row by its number"),
        ((x for x in [1]), {}, "has a length and gives each row by its number"),
        ("text", {}, "has a length and gives each row by its number"),
        (range(0), {}, "has no rows"),
        ([np.ones(2)] * 2, {}, "rows or columns"),
        ((np.ones(2), np.ones(3)), {}, "same number of rows.* found 2, 3"),
        ((1, 2), {}, "found no tensor"),
        (np.ones(()), {}, "without a dimension"),
        (range(9), {"batch_size": None}, "pass batch_size"),
        (range(9), {"batch_size": 0}, "batch_size must be a positive integer, not 0"),
        (range(9), {"batch_size": True}, "batch_size must be a positive integer, not True"),
        (range(9), {"batch_size": 1}, "batches of 1 row over 2 workers"),
        (range(9), {"seed": -1}, "seed must be a non-negative integer, not -1"),
        (range(9), {"seed": 0.5}, "seed must be a non-negative integer, not 0.5"),
        (range(9), {"last": "keep"}, "last must be"),
        (range(9), {"shuffle": 1}, "shuffle must be True or False"),
    ],
)
def test_bad_input_is_named(data: Any, options: Any, words: str) -> None:
    with pytest.raises(InvalidDataError, match=words):
        shards(data, 2, **options)


@pytest.mark.parametrize(
    "rows", [[(1, 2), (1,)], [{"a": 1}, {"b": 1}], [np.ones(2), 1], [(np.ones(2),), (np.ones(3),)]]
)
def test_rows_that_differ_are_named(rows: Any) -> None:
    (shard,) = shards(rows, 1)
    with pytest.raises(InvalidDataError, match="differ"):
        list(shard)


def test_a_group_of_one_shards_too() -> None:
    group = unidev.group()
    shard = group.shard(range(10), batch_size=4)
    assert read(shard) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert shard.padding == (0, 0, 0)
    assert "worker 0 of 1: shard of 10 rows in batches of 4, in order" in repr(shard)
    tree = {"x": unidev.arange(3), "name": "x"}
    found = group.gather_rows(tree, padded=1)
    assert unidev.to_numpy(found["x"]).tolist() == [0, 1]
    assert found["name"] == "x"
    for wrong in (-1, 4, 0.5):
        with pytest.raises(InvalidDataError, match="padded must be a number from 0 to 3 rows"):
            group.gather_rows(tree, padded=wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidDataError, match="same number"):
        group.gather_rows({"x": unidev.arange(3), "y": unidev.arange(2)})
