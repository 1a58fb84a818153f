"""``group().shard`` of ``tf.data``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import tensorflow as tf
from sharded import shards

import unidev

if TYPE_CHECKING:
    from unidev.parallel.batches.sharding import Shard


def numbers(shard: Shard) -> list[list[int]]:
    return [batch["x"].numpy().tolist() for batch in shard]


def rows(count: int = 10) -> Any:
    x = tf.range(count)
    return tf.data.Dataset.from_tensor_slices({"x": x, "words": tf.strings.as_string(x)})


@pytest.mark.parametrize(
    ("data", "batch_size"),
    [
        (rows().batch(4).prefetch(1), None),
        (rows().map(dict).batch(4, num_parallel_calls=2).map(dict).cache(), None),
        (rows().padded_batch(4), 4),
        (rows(), 4),
    ],
)
def test_each_worker_keeps_its_rows_of_each_batch(data: Any, batch_size: int | None) -> None:
    first, second = shards(data, 2, batch_size=batch_size)
    for _ in range(2):
        assert numbers(first) == [[0, 1], [4, 5], [8]]
        assert numbers(second) == [[2, 3], [6, 7], [9]]
    assert next(iter(second))["words"].numpy().tolist() == [b"2", b"3"]


def test_what_the_dataset_drops_is_dropped_and_what_is_too_small_padded() -> None:
    assert numbers(shards(rows().batch(4, drop_remainder=True), 2)[1]) == [[2, 3], [6, 7]]
    padded = shards(rows(9).batch(4), 2)
    assert [numbers(shard)[-1] for shard in padded] == [[8], [8]]
    assert [shard.padding for shard in padded] == [(0, 0, 0), (0, 0, 1)]
    assert numbers(shards(rows(9).batch(4), 2, last="drop")[1]) == [[2, 3], [6, 7]]


def test_a_seeded_shuffle_is_the_same_on_all_workers() -> None:
    def data() -> Any:
        return rows().shuffle(10, seed=5).batch(4)

    epochs = [[numbers(own) for own in (shards(data(), 2)[rank],) * 2] for rank in range(2)]
    for first, second in zip(*epochs, strict=True):
        read = [row for pair in zip(first, second, strict=True) for part in pair for row in part]
        assert sorted(read) == list(range(10))


@pytest.mark.parametrize(
    ("data", "options", "error", "words"),
    [
        (rows().shuffle(10).batch(4), {}, "UnsupportedOperation", "shuffled without a seed"),
        (rows().batch(4).rebatch(2), {}, "UnsupportedOperation", "through a RebatchDataset"),
        (rows().batch(4).repeat(2), {}, "UnsupportedOperation", "go through a RepeatDataset"),
        (rows().batch(4), {"shuffle": True}, "UnsupportedOperation", "shuffle it itself"),
        (rows().filter(lambda row: True).batch(4), {}, "InvalidDataError", "a known length"),
        (rows().repeat().batch(4), {}, "InvalidDataError", "a known length"),
        (iter(rows().batch(4)), {}, "InvalidDataError", "a known length"),
        (rows(), {}, "InvalidDataError", "pass batch_size"),
        (tf.keras.utils.PyDataset(), {}, "UnsupportedOperation", "makes whole batches"),
    ],
)
def test_what_cannot_be_shared_out_is_refused(
    data: Any, options: Any, error: str, words: str
) -> None:
    with pytest.raises(getattr(unidev, error), match=words):
        shards(data, 2, **options)


def test_an_order_that_is_not_deterministic_is_refused() -> None:
    options = tf.data.Options()
    options.deterministic = False
    with pytest.raises(unidev.UnsupportedOperation, match="not deterministic"):
        shards(rows().batch(4).with_options(options), 2)
