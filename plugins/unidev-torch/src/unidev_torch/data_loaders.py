"""PyTorch's loaders and data sets, read by the numbers of their rows."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._device import DeviceContext
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
)

from unidev.contract import EpochBatches, Loader, Rows, with_own_order, without_rows
from unidev_torch.scopes import NativeScope, call_modes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager


class TorchLoader(Loader):
    """``DataLoader`` and map-style ``Dataset``."""

    def rows(self, data: Any) -> Rows | None:
        """The rows of the loader's data set, with its collation and its workers."""
        if isinstance(data, DataLoader):
            _check_length(data.dataset)
            _check_order(data)
            return _TorchRows(data)
        if isinstance(data, Dataset):
            _check_length(data)
            return _TorchRows(DataLoader(data, batch_size=None))
        return None


class Reading:
    """Iterates over a loader outside of ``with device:``, which is about what the program makes.

    A sampler draws on the device of its generator, mostly the CPU: torch refuses any other.
    """

    def __init__(self, loader: DataLoader[Any]) -> None:
        generator = loader.generator or getattr(loader.sampler, "generator", None)
        self._device = torch.device("cpu") if generator is None else generator.device
        with self._outside():
            self._batches = iter(loader)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        with self._outside():
            return next(self._batches)

    def _outside(self) -> AbstractContextManager[None]:
        is_inside = any(isinstance(mode, DeviceContext) for mode in call_modes())
        return NativeScope(self._device) if is_inside else nullcontext()


class _TorchRows(Rows):
    def __init__(self, loader: DataLoader[Any]) -> None:
        self._given = loader
        self.batch_size = loader.batch_size
        self.drops_last = loader.batch_size is not None and loader.drop_last
        self.is_shuffled = isinstance(loader.sampler, RandomSampler)
        self._batches = EpochBatches()
        self._loader: DataLoader[Any] | None = None

    def __len__(self) -> int:
        return len(self._given.dataset)  # type: ignore[arg-type]  # checked

    def read(self, batches: Sequence[Sequence[int]], size: int) -> Iterator[Any]:  # noqa: ARG002
        """By a loader like the given one, whose worker processes stay if that one's would."""
        if self._loader is None:
            self._loader = _like(self._given, self._batches)
        self._batches.current = batches
        return Reading(self._loader)


def _like(loader: DataLoader[Any], batches: EpochBatches) -> DataLoader[Any]:
    collates = loader.batch_size is not None
    return DataLoader(
        loader.dataset,
        batch_sampler=batches,  # type: ignore[arg-type]  # any iterable of lists will do
        num_workers=loader.num_workers,
        collate_fn=loader.collate_fn if collates else None,
        pin_memory=loader.pin_memory,
        timeout=loader.timeout,
        worker_init_fn=loader.worker_init_fn,
        multiprocessing_context=loader.multiprocessing_context,
        generator=loader.generator,
        prefetch_factor=loader.prefetch_factor,
        persistent_workers=loader.persistent_workers,
    )


def _check_length(dataset: object) -> None:
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
        raise without_rows(dataset)


def _check_order(loader: DataLoader[Any]) -> None:
    batches, sampler = loader.batch_sampler, loader.sampler
    if batches is None:
        own = "batch_size of None"
    elif loader.batch_size is None or type(batches) is not BatchSampler:
        own = type(batches).__name__
    elif isinstance(sampler, RandomSampler) and (
        sampler.replacement or sampler.num_samples != len(loader.dataset)  # type: ignore[arg-type]
    ):
        own = "RandomSampler with replacement, or of fewer rows"
    elif type(sampler) in (SequentialSampler, RandomSampler):
        return
    else:
        own = type(sampler).__name__
    raise with_own_order(own)
