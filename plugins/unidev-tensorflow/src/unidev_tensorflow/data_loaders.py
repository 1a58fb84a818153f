"""Rows of a ``tf.data.Dataset``, which is read in its own order by every worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf  # type: ignore[import-untyped]

from unidev.contract import Loader, Rows, kind_of
from unidev.errors import InvalidDataError, UnsupportedOperation
from unidev_tensorflow.containers import LOADERS, batches_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_BATCHES = frozenset({"BatchDataset", "ParallelBatchDataset", "PaddedBatchDataset"})
_KEEP_BATCHES = frozenset(
    {"MapDataset", "ParallelMapDataset", "PrefetchDataset", "CacheDataset", "OptionsDataset"}
)
"""What stands between a dataset's batches and its end without changing their number."""


class TensorFlowLoader(Loader):
    """``tf.data.Dataset``, batched or not."""

    def rows(self, data: Any) -> Rows | None:
        """Each worker reads the dataset, and keeps its own rows of each batch."""
        if isinstance(data, tf.keras.utils.PyDataset):
            raise UnsupportedOperation(
                "shard of a keras.utils.PyDataset",
                "it makes whole batches: make it a tf.data.Dataset, or split its batches by "
                "unidev.group().split_batch",
            )
        if not isinstance(data, LOADERS):
            return None
        if not isinstance(data, tf.data.Dataset):
            raise _without_length(data)
        return _DatasetRows(data)


class _DatasetRows(Rows):
    is_in_order = True

    def __init__(self, dataset: tf.data.Dataset) -> None:
        _check_order(dataset)
        batched = _batched(dataset)
        self._dataset = dataset
        source = dataset
        if batched is not None:
            source = batched._input_dataset
            self.batch_size = int(batched._batch_size)
            self.drops_last = bool(batched._drop_remainder)
        self._count = int(source.cardinality())
        if self._count < 0:
            raise _without_length(dataset)

    def __len__(self) -> int:
        return self._count

    def read(self, batches: Sequence[Sequence[int]], size: int) -> Iterator[Any]:
        """The rows are gathered on the host."""
        whole = self._dataset if self.batch_size is not None else self._dataset.batch(size)
        pairs = zip(batches_of(whole), batches, strict=False)  # a last batch may be left out
        return (
            _rows_of(batch, [number - start * size for number in numbers])
            for start, (batch, numbers) in enumerate(pairs)
        )


def _rows_of(batch: Any, positions: list[int]) -> Any:
    with tf.device("/CPU:0"):
        return tf.nest.map_structure(lambda x: tf.gather(x, positions), batch)


def _batched(dataset: Any) -> Any:
    """The dataset that makes the batches of ``dataset``; None if its elements are rows."""
    found, others = dataset, list[str]()
    while (name := _name(found)) not in _BATCHES:
        inputs = found._inputs()
        if name not in _KEEP_BATCHES:
            others.append(name)
        if len(inputs) != 1 and not any("batch" in other.lower() for other in others):
            return None
        if len(inputs) != 1:
            break
        (found,) = inputs
    if others:
        raise UnsupportedOperation(
            f"shard of a dataset whose batches go through a {others[0]}",
            "their rows have no numbers any more: batch last, or pass the dataset of rows and "
            "batch_size",
        )
    return found


def _name(dataset: Any) -> str:
    return type(dataset).__name__.strip("_")


def _check_order(dataset: Any) -> None:
    """Refuse an order that each worker would draw for itself."""
    if dataset.options().deterministic is False:
        raise UnsupportedOperation(
            "shard of a dataset whose order is not deterministic",
            "the workers would see different rows: set deterministic to True in its options",
        )
    todo = [dataset]
    while todo:
        each = todo.pop()
        todo += each._inputs()
        if _name(each) == "ShuffleDataset" and not int(each._seed) | int(each._seed2):
            raise UnsupportedOperation(
                "shard of a dataset that is shuffled without a seed",
                "each worker would draw an order of its own: dataset.shuffle(…, seed=…), with the "
                "same seed on all workers",
            )


def _without_length(data: Any) -> InvalidDataError:
    return InvalidDataError(
        f"shard needs a dataset with a known length, and this {kind_of(data)} has none: "
        "tf.data.experimental.assert_cardinality states it."
    )
