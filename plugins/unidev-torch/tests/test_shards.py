"""``group().shard`` of PyTorch's loaders and data sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from sharded import check_shuffled, shards
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

import unidev

if TYPE_CHECKING:
    from unidev.parallel.batches.sharding import Shard


class Squares(Dataset[tuple[int, float]]):
    """Rows that are made when they are asked for, and noted."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def __len__(self) -> int:
        return 11

    def __getitem__(self, number: int) -> tuple[int, float]:
        self.asked.append(number)
        return number, float(number**2)


class Endless(IterableDataset[int]):
    def __iter__(self) -> Any:
        return iter(range(5))


def numbers(shard: Shard) -> list[list[int]]:
    return [batch[0].tolist() for batch in shard]


@pytest.mark.parametrize("workers", [0, 2])
def test_each_worker_reads_its_rows_only(workers: int) -> None:
    data = Squares()
    loader = DataLoader(data, batch_size=4, num_workers=workers, persistent_workers=workers > 0)
    first, second = shards(loader, 2)
    for _ in range(2):
        assert numbers(first) == [[0, 1], [4, 5], [8, 9]]
    (x, y), *_ = first
    assert (x.dtype, y.tolist()) == (torch.int64, [0.0, 1.0])
    data.asked.clear()
    assert numbers(second) == [[2, 3], [6, 7], [10]]
    if not workers:
        assert data.asked == [2, 3, 6, 7, 10]


def test_the_loaders_own_settings_count() -> None:
    def together(rows: list[tuple[int, float]]) -> tuple[torch.Tensor, str]:
        return torch.tensor([number for number, _ in rows]), "mine"

    loader = DataLoader(Squares(), batch_size=4, shuffle=True, drop_last=True, collate_fn=together)
    own = shards(loader, 2)
    check_shuffled(own, numbers)
    assert next(iter(own[0]))[1] == "mine"
    (still,) = shards(loader, 1, shuffle=False)
    assert numbers(still) == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_a_data_set_needs_a_batch_size() -> None:
    data = TensorDataset(torch.arange(5), torch.arange(5.0))
    assert numbers(shards(data, 2, batch_size=3)[1]) == [[2], [4]]
    with pytest.raises(unidev.InvalidDataError, match="pass batch_size"):
        shards(data, 2)
    with pytest.raises(
        unidev.InvalidDataError, match="batch_size=3, but the loader has batches of 4"
    ):
        shards(DataLoader(data, batch_size=4), 2, batch_size=3)


def test_a_tensor_is_sharded_by_its_rows() -> None:
    x = torch.arange(6.0, requires_grad=True)
    (batch,) = shards((x, {"y": x}), 2, batch_size=6)[1]
    assert batch[0].tolist() == batch[1]["y"].tolist() == [3, 4, 5]


@pytest.mark.parametrize("data", [Endless(), DataLoader(Endless(), batch_size=2)])
def test_what_has_no_length_is_refused(data: Any) -> None:
    with pytest.raises(unidev.InvalidDataError, match="with a length and rows by number; Endless"):
        shards(data, 2, batch_size=2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sampler": WeightedRandomSampler([1.0] * 11, 11)}, "a WeightedRandomSampler"),
        ({"sampler": SubsetRandomSampler([1, 2])}, "a SubsetRandomSampler"),
        ({"sampler": RandomSampler(Squares(), replacement=True)}, "with replacement"),
        ({"sampler": RandomSampler(Squares(), num_samples=3)}, "or of fewer rows"),
        ({"batch_sampler": BatchSampler(SequentialSampler(Squares()), 2, False)}, "a BatchSampler"),
        ({"batch_sampler": [[1, 2], [3]]}, "a list"),
        ({"batch_size": None}, "batch_size of None"),
    ],
)
def test_an_order_of_its_own_is_refused(options: Any, words: str) -> None:
    loader = DataLoader(Squares(), **options)
    with pytest.raises(unidev.UnsupportedOperation, match=words):
        shards(loader, 2)
