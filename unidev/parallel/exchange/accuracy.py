"""``evaluate_accuracy`` over the workers of a run: each row counts once, whoever reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.errors import InvalidDataError
from unidev.parallel.batches.prefetching import Prefetched
from unidev.parallel.batches.sharding import Shard
from unidev.parallel.devices.accuracy import count_right
from unidev.parallel.exchange.group import group
from unidev.system.wording import shown
from unidev.tensors.creating import array, to_numpy

if TYPE_CHECKING:
    from collections.abc import Iterable


def evaluate_accuracy(model: Any, batches: Iterable[tuple[Any, Any]], /) -> float:
    """The share of rows that ``model`` classifies correctly: ``argmax`` of its outputs is ``y``.

    Computes without gradients and in inference mode, and gives each layer the mode that it had
    before. Blocks for each batch, whose outputs are read.

    Over a shard, ``unidev.group().shard(loader)``, this is a collective, which all workers must
    call: each computes with its own rows, and all get the accuracy over all rows, without repeated
    ones. Over other batches, each worker computes with all of them.

    Args:
        model: a model, or a ``DataParallel``, which splits each batch over its devices. Called with
            ``X``, which is moved to the model's device, it returns ``(rows, classes)``.
        batches: pairs ``(X, y)``; ``y`` has the number of the right class of each row, as a tensor
            on any device, an array or a list. A shard may come through ``prefetch``.

    Raises:
        NotAModelError: ``model`` is not a model.
        InvalidDataError: the batches have no rows, or ``y`` does not fit the outputs.
    """
    source = batches.batches if isinstance(batches, Prefetched) else batches
    if isinstance(source, Shard):
        right, rows = count_right(model, batches, source.padding)
        own = group()
        if own.size > 1:
            counts = array(np.array([right, rows]), device=own.device)
            right, rows = to_numpy(own.all_reduce(counts)).tolist()
    else:
        right, rows = count_right(model, batches)
    if not rows:
        raise InvalidDataError(f"the batches, {shown(batches)}, have no rows.")
    return right / rows
