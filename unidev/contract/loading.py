"""``Loader``: the part of the contract for a framework's loaders and data sets, read by rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from unidev.contract.backend import Backend


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


class Loader(ABC):
    """Opens the framework's own loaders and data sets for ``unidev.group().shard``."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    @abstractmethod
    def rows(self, data: Any) -> Rows | None:
        """The rows of a loader or a data set of the framework's; None for any other object.

        Raises:
            InvalidDataError: it has no length.
            UnsupportedOperation: its order is its own, such as that of a sampler that draws with
                weights; says what to do instead.
        """
