"""``group().shard`` of Gluon's loaders and data sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mxnet as mx
import numpy as np
import pytest
from mxnet.gluon.data import (
    ArrayDataset,
    BatchSampler,
    DataLoader,
    Dataset,
    FilterSampler,
    SequentialSampler,
)
from sharded import check_shuffled, shards

import unidev

if TYPE_CHECKING:
    from unidev.parallel.batches.sharding import Shard


class Unsized(Dataset):  # type: ignore[misc]
    def __getitem__(self, number: int) -> int:
        return number


def numbers(shard: Shard) -> list[list[int]]:
    return [batch[0].asnumpy().astype(int).tolist() for batch in shard]


def rows() -> Any:
    return ArrayDataset(np.arange(11), np.arange(11.0))


@pytest.mark.parametrize("workers", [0, 2])
def test_each_worker_reads_its_rows_only(workers: int) -> None:
    loader = DataLoader(rows(), batch_size=4, num_workers=workers, thread_pool=True)
    first, second = shards(loader, 2)
    for _ in range(2):
        assert numbers(first) == [[0, 1], [4, 5], [8, 9]]
        assert numbers(second) == [[2, 3], [6, 7], [10]]


def test_the_loaders_own_settings_count() -> None:
    def together(found: list[Any]) -> list[Any]:
        return [mx.nd.array([number for number, _ in found]), "mine"]

    loader = DataLoader(
        rows(), batch_size=4, shuffle=True, last_batch="discard", batchify_fn=together
    )
    own = shards(loader, 2)
    check_shuffled(own, numbers)
    assert next(iter(own[0]))[1] == "mine"
    assert numbers(shards(rows(), 2, batch_size=6)[1]) == [[3, 4, 5], [9, 10]]


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        (Unsized(), "InvalidDataError", "Unsized has none"),
        (rows(), "InvalidDataError", "pass batch_size"),
        (
            DataLoader(rows(), batch_size=4, last_batch="rollover"),
            "UnsupportedOperation", "last_batch of rollover",
        ),
        (
            DataLoader(rows(), batch_size=4, sampler=FilterSampler(lambda _: True, rows())),
            "UnsupportedOperation", "a FilterSampler",
        ),
        (
            DataLoader(rows(), batch_sampler=[[1, 2]]),
            "UnsupportedOperation", "a list",
        ),
        (
            DataLoader(rows(), batch_sampler=BatchSampler(SequentialSampler(3), 2)),
            "UnsupportedOperation", "a SequentialSampler",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_shared_out_is_refused(data: Any, error: str, words: str) -> None:
    with pytest.raises(getattr(unidev, error), match=words):
        shards(data, 2)
