"""``group().shard`` of Paddle's loaders and data sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import paddle
import pytest
from paddle.io import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    WeightedRandomSampler,
)
from sharded import check_shuffled, shards

import unidev

if TYPE_CHECKING:
    from unidev.parallel.batches.sharding import Shard


class Squares(Dataset):  # type: ignore[misc]
    """Rows that are made when they are asked for, and noted."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def __len__(self) -> int:
        return 11

    def __getitem__(self, number: int) -> tuple[int, float]:
        self.asked.append(number)
        return number, float(number**2)


class Endless(IterableDataset):  # type: ignore[misc]
    def __iter__(self) -> Any:
        return iter(range(5))


def numbers(shard: Shard) -> list[list[int]]:
    return [batch[0].numpy().tolist() for batch in shard]


def sampled(sampler: Any) -> DataLoader:
    return DataLoader(Squares(), batch_sampler=BatchSampler(sampler=sampler, batch_size=4))


@pytest.mark.parametrize("workers", [0, 2])
def test_each_worker_reads_its_rows_only(workers: int) -> None:
    data = Squares()
    loader = DataLoader(data, batch_size=4, num_workers=workers)
    first, second = shards(loader, 2)
    for _ in range(2):
        assert numbers(first) == [[0, 1], [4, 5], [8, 9]]
    data.asked.clear()
    assert numbers(second) == [[2, 3], [6, 7], [10]]
    if not workers:
        assert data.asked == [2, 3, 6, 7, 10]


def test_a_worker_ends_though_it_collects_garbage_after_loaders_were_left(run_python) -> None:
    done = run_python(
        """
        import gc
        import threading
        import numpy as np
        import unidev
        unidev.set_backend("paddle")
        import paddle

        def left(data):
            cycle = [iter(paddle.io.DataLoader(data, batch_size=2))]
            next(cycle[0])
            cycle.append(cycle)

        if __name__ == "__main__":
            gc.disable()
            left([np.ones(3, "float32")] * 4)
            left([np.ones(3, "float32")] * 4)  # Paddle holds the last one
            for thread in threading.enumerate()[1:]:
                thread.join(1)
            data = [np.ones(3, "float32")] * 8
            collects = lambda worker: gc.collect()
            loader = paddle.io.DataLoader(data, batch_size=2, num_workers=2,
                                          timeout=20, worker_init_fn=collects)
            print(len(list(unidev.group().shard(loader))))
        """
    )
    assert done.stdout == "4\n", done.stderr


def test_the_loaders_own_settings_count() -> None:
    def together(rows: list[tuple[int, float]]) -> list[Any]:
        return [paddle.to_tensor([number for number, _ in rows]), paddle.zeros([2])]

    loader = DataLoader(Squares(), batch_size=4, shuffle=True, drop_last=True, collate_fn=together)
    own = shards(loader, 2)
    check_shuffled(own, numbers)
    assert next(iter(own[0]))[1].shape == [2]
    assert numbers(shards(Squares(), 2, batch_size=6)[1]) == [[3, 4, 5], [9, 10]]


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        (Endless(), "InvalidDataError", "Endless has none"),
        (DataLoader(Endless(), batch_size=2), "InvalidDataError", "Endless has none"),
        (Squares(), "InvalidDataError", "pass batch_size"),
        (DataLoader(Squares(), batch_size=None), "UnsupportedOperation", "batch_size of None"),
        (
            sampled(WeightedRandomSampler([1.0] * 11, 11)),
            "UnsupportedOperation", "a WeightedRandomSampler",
        ),
        (
            sampled(RandomSampler(Squares(), replacement=True)),
            "UnsupportedOperation", "with replacement",
        ),
        (DataLoader(Squares(), batch_sampler=[[1, 2]]), "UnsupportedOperation", "a list"),
    ],
)  # fmt: skip
def test_what_cannot_be_shared_out_is_refused(data: Any, error: str, words: str) -> None:
    with pytest.raises(getattr(unidev, error), match=words):
        shards(data, 2)
