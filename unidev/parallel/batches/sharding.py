"""``Shard``: one worker's rows of each batch, the same batches whatever the number of workers."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unidev.errors import InvalidDataError, UnsupportedOperation
from unidev.parallel.batches.rows import rows_of_data
from unidev.system.arguments import choice, flag, size
from unidev.system.wording import count_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unidev.contract.data_loaders import Rows

PAD, DROP = "pad", "drop"


class Sharding(NamedTuple):
    """What all workers must have in common."""

    rows: int
    batch_size: int
    shuffle: bool
    seed: int
    last: str
    drops_last: bool

    def described(self) -> str:
        """In words, for a comparison."""
        order = f"shuffled by seed {self.seed}" if self.shuffle else "in order"
        return (
            f"shard of {count_text(self.rows, 'row')} in batches of {self.batch_size}, {order}, "
            f"last={self.last!r}" + ", without an incomplete batch" * self.drops_last
        )


class Shard:
    """The batches of a loader or a data set, with one worker's rows of each.

    ``unidev.group().shard`` makes it. Every iteration is an epoch: it begins anew, in another order
    if the rows are shuffled. ``len`` is the number of batches, the same on all workers.

    Attributes:
        padding: for each batch how many of this worker's last rows are repeated ones: 0 but in a
            last batch that has fewer rows than there are workers. There each row is read by the
            same number of workers.
    """

    def __init__(self, rows: Rows, sharding: Sharding, rank: int, size: int) -> None:
        self._rows = rows
        self._sharding = sharding
        self._rank = rank
        self._size = size
        self._epoch = 0
        self.padding = tuple(padded for _, padded in self._own(np.arange(sharding.rows)))

    @property
    def epoch(self) -> int:
        """The number of the epoch that the next iteration reads, from 0; each adds 1.

        Set it where a run begins again, ``shard.epoch = begun``: the order depends on it.
        """
        return self._epoch

    @epoch.setter
    def epoch(self, value: int) -> None:
        self._epoch = size("epoch", value, least=0)

    def __len__(self) -> int:
        return len(self.padding)

    def __iter__(self) -> Iterator[Any]:
        own = self._own(self._order(self._epoch))
        self._epoch += 1
        return self._rows.read([numbers for numbers, _ in own], self._sharding.batch_size)

    def __repr__(self) -> str:
        return f"<worker {self._rank} of {self._size}: {self._sharding.described()}>"

    def _order(self, epoch: int) -> np.ndarray[Any, Any]:
        """The rows' numbers in the order of an epoch: the same on every worker."""
        how = self._sharding
        if not how.shuffle:
            return np.arange(how.rows)
        seed = np.random.SeedSequence([how.seed, epoch])
        return np.random.Generator(np.random.PCG64(seed)).permutation(how.rows)

    def _own(self, order: np.ndarray[Any, Any]) -> list[tuple[list[int], int]]:
        """This worker's rows of each batch, and how many of them are repeated."""
        how, found = self._sharding, list[tuple[list[int], int]]()
        for start in range(0, how.rows, how.batch_size):
            batch = order[start : start + how.batch_size].tolist()
            if how.drops_last and len(batch) < how.batch_size:
                continue
            each, more = divmod(len(batch), self._size)
            if each:  # as `split_batch` does
                begin = self._rank * each + min(self._rank, more)
                found.append((batch[begin : begin + each + (self._rank < more)], 0))
            elif how.last == PAD:  # each row as often as the others: their mean is the batch's
                share = len(batch) // gcd(len(batch), self._size)
                places = range(self._rank * share, (self._rank + 1) * share)
                rows = [batch[place % len(batch)] for place in places]
                found.append((rows, sum(place >= len(batch) for place in places)))
        return found


def opened(  # noqa: PLR0913  the arguments of `Group.shard`
    data: Any, workers: int, *, batch_size: object, shuffle: object, seed: object, last: object
) -> tuple[Rows, Sharding]:
    """The rows of ``data``, and how they are shared out; as of ``Group.shard``."""
    number = size("seed", seed, least=0)
    choice("last", last, (PAD, DROP))
    rows = rows_of_data(data)
    if not len(rows):
        raise InvalidDataError("data to shard has no rows.")
    of_batch = _batch_size(rows, batch_size)
    if of_batch < workers:
        raise InvalidDataError(
            f"batches of {count_text(of_batch, 'row')} over {workers} workers would leave a worker "
            "without one: batch_size is that of all workers together. Use larger batches."
        )
    is_shuffled = rows.is_shuffled if shuffle is None else flag("shuffle", shuffle)
    if is_shuffled and rows.is_in_order:
        raise UnsupportedOperation(
            "shard(…, shuffle=True) of this data",
            "its rows can be read only in its own order: shuffle it itself, with a seed that "
            "is the same on all workers, and pass shuffle=False",
        )
    return rows, Sharding(len(rows), of_batch, is_shuffled, number, str(last), rows.drops_last)


def _batch_size(rows: Rows, given: object) -> int:
    own = rows.batch_size
    if given is None:
        if own is None:
            raise InvalidDataError(
                "this data has no batches of its own: pass batch_size=…, the rows of a batch of "
                "all workers together."
            )
        return own
    number = size("batch_size", given)
    if own is not None and own != number:
        raise InvalidDataError(
            f"batch_size={number}, but the loader has batches of {own}: leave out batch_size."
        )
    return number
