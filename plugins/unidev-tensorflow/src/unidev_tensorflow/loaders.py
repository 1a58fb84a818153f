"""Reading ``tf.data`` in a thread beside TensorFlow's other work."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import tensorflow as tf  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Iterator

LOADERS: tuple[type, ...] = (tf.data.Dataset, tf.data.Iterator)


def batches_of(loader: Any) -> Iterator[Any]:
    """The batches of a dataset, or those left of its iterator, without an error at the end.

    ``next`` learns of the end by an operation that fails. When one fails, TensorFlow aborts what
    the operations of all threads meet by, and one that is at work on another device at that moment
    fails with the same error: a step on ``GPU:0``, with "End of sequence". So only as many batches
    are asked for by ``next`` as there are, and more, if that is not known, as optional ones.
    """
    iterator: Iterator[Any] = iter(loader)
    known = int(loader.cardinality()) if isinstance(loader, tf.data.Dataset) else 0
    if known == tf.data.INFINITE_CARDINALITY:
        return iterator
    return chain(islice(iterator, max(known, 0)), _until_empty(iterator))


def _until_empty(iterator: Any) -> Iterator[Any]:
    while (found := iterator.get_next_as_optional()).has_value():
        yield found.get_value()
