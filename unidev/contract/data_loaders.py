"""``Loader``: the part of the contract for a framework's loaders and data sets, read by rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from unidev.contract.optional import BackendPart
from unidev.errors import InvalidDataError, UnsupportedOperation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Rows(ABC):
    """A loader or a data set, opened for reading by the numbers of its rows."""

    batch_size: int | None = None
    """The rows of a batch of the loader's; None: a data set has no batches of its own."""
    is_shuffled: bool = False
    """Whether the loader draws another order for each epoch."""
    drops_last: bool = False
    """Whether the loader leaves out a last batch that has fewer rows than the others."""
    is_in_order: bool = False
    """Whether rows can be read in the order of their numbers only, batch after batch."""

    @abstractmethod
    def __len__(self) -> int:
        """The number of rows."""

    @abstractmethod
    def read(self, batches: Sequence[Sequence[int]], size: int) -> Iterator[Any]:
        """For each of ``batches`` its rows, by their numbers, as one batch as the loader makes it.

        Called in the thread that iterates, with one list for each batch of an epoch; the iterator
        may be used in another thread. ``size`` is the number of rows in each whole batch, of which
        these are a share: rows of batch ``n`` have numbers from ``n * size`` on where they are read
        in order. A row may be listed twice.
        """


class Loader(BackendPart, ABC):
    """Opens the framework's own loaders and data sets for ``unidev.group().shard``."""

    @abstractmethod
    def rows(self, data: Any) -> Rows | None:
        """The rows of a loader or a data set of the framework's; None for any other object.

        Raises:
            InvalidDataError: it has no length.
            UnsupportedOperation: its order is its own, as of a weighted sampler; says what to do.
        """


class EpochBatches:
    """A batch sampler for a framework's own loader: the batches of one epoch, set before it begins.

    Attributes:
        current: for each batch the numbers of its rows.
    """

    current: Sequence[Sequence[int]] = ()

    def __iter__(self) -> Iterator[Sequence[int]]:
        return iter(self.current)

    def __len__(self) -> int:
        return len(self.current)


def without_rows(dataset: object) -> InvalidDataError:
    """The error for a data set without a length, or whose rows have no numbers."""
    return InvalidDataError(
        f"shard needs a data set with a length and rows by number; {type(dataset).__name__} "
        "has none: give each worker rows of its own by unidev.group().rank, or split batches "
        "by unidev.group().split_batch."
    )


def with_own_order(
    what: str, data_set: str = "its data set, loader.dataset"
) -> UnsupportedOperation:
    """The error for a loader with ``what``, such as a sampler, that orders the rows itself."""
    return UnsupportedOperation(
        f"shard of a DataLoader with a {what}",
        f"its order is its own: shard {data_set}, or split its batches by "
        "unidev.group().split_batch",
    )
