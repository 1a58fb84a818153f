"""Gluon's loaders and data sets, read by the numbers of their rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mxnet.gluon.data import BatchSampler, DataLoader, Dataset, RandomSampler, SequentialSampler  # type: ignore[import-untyped]

from unidev.contract import EpochBatches, Loader, Rows, with_own_order
from unidev.errors import InvalidDataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class MxnetLoader(Loader):
    """``gluon.data.DataLoader`` and ``Dataset``."""

    def rows(self, data: Any) -> Rows | None:
        """The rows of the loader's data set, with its ``batchify_fn`` and its workers."""
        if isinstance(data, DataLoader):
            _check_order(data)
            return _GluonRows(data._dataset, data)
        return _GluonRows(data, None) if isinstance(data, Dataset) else None


class _GluonRows(Rows):
    def __init__(self, dataset: Any, given: Any) -> None:
        self._dataset, self._given = dataset, given
        try:
            self._count = len(dataset)
        # Gluon's own class of data sets raises the second, a class without a length the first.
        except (TypeError, NotImplementedError) as error:
            raise InvalidDataError(
                f"shard needs a data set with a length, and {type(dataset).__name__} has none."
            ) from error
        if given is not None:
            batches = given._batch_sampler
            self.batch_size = batches._batch_size
            self.drops_last = batches._last_batch == "discard"
            self.is_shuffled = type(batches._sampler) is RandomSampler
        self._batches = EpochBatches()
        self._loader: Any = None

    def __len__(self) -> int:
        return self._count

    def read(self, batches: Sequence[Sequence[int]], size: int) -> Iterator[Any]:  # noqa: ARG002
        """By a loader like the given one, with worker processes of its own."""
        if self._loader is None:
            self._loader = self._made()
        return self._epoch(batches)

    def _epoch(self, batches: Sequence[Sequence[int]]) -> Iterator[Any]:
        self._batches.current = batches  # now: the loader asks for them at its first batch
        yield from self._loader

    def _made(self) -> Any:
        given = self._given
        if given is None:
            return DataLoader(self._dataset, batch_sampler=self._batches, auto_reload=False)
        return DataLoader(
            self._dataset,
            batch_sampler=self._batches,
            batchify_fn=given._batchify_fn,
            num_workers=given._num_workers,
            pin_memory=given._pin_memory,
            pin_device_id=given._pin_device_id,
            prefetch=given._prefetch,
            thread_pool=given._thread_pool,
            timeout=given._timeout,
            auto_reload=False,  # which reads ahead of the next epoch, before it is known
        )


def _check_order(loader: Any) -> None:
    batches = loader._batch_sampler
    if type(batches) is not BatchSampler:
        own = type(batches).__name__
    elif batches._last_batch == "rollover":
        own = "last_batch of rollover"
    elif type(batches._sampler) not in (SequentialSampler, RandomSampler) or len(
        batches._sampler
    ) != len(loader._dataset):
        own = type(batches._sampler).__name__
    else:
        return
    raise with_own_order(own, "its data set")
