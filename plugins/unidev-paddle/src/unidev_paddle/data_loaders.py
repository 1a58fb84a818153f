"""Paddle's loaders and data sets, read by the numbers of their rows."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

from unidev.contract import EpochBatches, Loader, Rows, with_own_order, without_rows
from unidev_paddle.framework import paddle

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

io = paddle.io


class PaddleLoader(Loader):
    """``paddle.io.DataLoader`` and map-style ``Dataset``."""

    def rows(self, data: Any) -> Rows | None:
        """The rows of the loader's data set, with its collation and its workers."""
        if isinstance(data, io.DataLoader):
            _check_length(data.dataset)
            _check_order(data)
            return _PaddleRows(data.dataset, data)
        if isinstance(data, io.Dataset):
            _check_length(data)
            return _PaddleRows(data, None)
        return None


class _PaddleRows(Rows):
    def __init__(self, dataset: Any, given: Any) -> None:
        self._dataset, self._given = dataset, given
        if given is not None:
            batches = given.batch_sampler
            self.batch_size = batches.batch_size
            self.drops_last = bool(batches.drop_last)
            self.is_shuffled = type(batches.sampler) is io.RandomSampler
        self._batches = EpochBatches()
        self._loader: Any = None

    def __len__(self) -> int:
        return len(self._dataset)

    def read(self, batches: Sequence[Sequence[int]], size: int) -> Iterator[Any]:  # noqa: ARG002
        """By a loader like the given one, with worker processes of its own."""
        if self._loader is None:
            self._loader = self._made()
        self._batches.current = batches
        if self._loader.num_workers:
            # A worker is forked, and never ends if it collects what this process has left of an
            # earlier loader: its queue waits for a thread that is here (3.3.1, glibc's
            # pthread_cond_destroy and ~BufferedReader).
            gc.collect()
        return iter(self._loader)

    def _made(self) -> Any:
        given = self._given
        if given is None:
            return io.DataLoader(self._dataset, batch_sampler=self._batches)
        return io.DataLoader(
            self._dataset,
            places=given.places,
            return_list=given.return_list,
            batch_sampler=self._batches,
            collate_fn=given.collate_fn,
            num_workers=given.num_workers,
            use_buffer_reader=given.use_buffer_reader,
            prefetch_factor=given.prefetch_factor,
            use_shared_memory=given.use_shared_memory,
            timeout=given.timeout,
            worker_init_fn=given.worker_init_fn,
            persistent_workers=given._persistent_workers,
        )


def _check_length(dataset: object) -> None:
    if isinstance(dataset, io.IterableDataset) or not hasattr(dataset, "__len__"):
        raise without_rows(dataset)


def _check_order(loader: Any) -> None:
    batches = loader.batch_sampler
    if batches is None:
        own = "batch_size of None"
    elif type(batches) is not io.BatchSampler:
        own = type(batches).__name__
    elif type(batches.sampler) not in (io.SequenceSampler, io.RandomSampler) or len(
        batches.sampler
    ) != len(loader.dataset):
        own = type(batches.sampler).__name__
    elif getattr(batches.sampler, "replacement", False):
        own = "RandomSampler with replacement"
    else:
        return
    raise with_own_order(own)
