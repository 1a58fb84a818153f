"""``evaluate_accuracy`` over the workers of a run: each row counts once, whoever reads it."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.contract.backend import Unsupported
from unidev.errors import InvalidDataError, NotAModelError, UnidevError
from unidev.models.placing import backend_of_model
from unidev.parallel.batches.prefetching import Prefetched
from unidev.parallel.batches.sharding import Shard
from unidev.parallel.devices.packing import unrecorded
from unidev.parallel.exchange.group import group
from unidev.system.wording import kind_of, shown
from unidev.tensors.converting import convert
from unidev.tensors.creating import array, to_numpy
from unidev.tensors.host_data import device_get, device_put
from unidev.tensors.kinds import TENSOR, classify, model_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from unidev.contract.backend import Backend


def evaluate_accuracy(model: Any, batches: Iterable[tuple[Any, Any]], /) -> float:
    """The share of rows that ``model`` classifies correctly: ``argmax`` of its outputs is ``y``.

    Computes without gradients and in inference mode, and gives each layer the mode that it had
    before. Blocks for each batch, whose outputs are read.

    Over a shard, ``unidev.group().shard(loader)``, this is a collective, which all workers must
    call: each computes with its own rows, and all get the accuracy over all rows, without repeated
    ones. Over other batches, each worker computes with all of them.

    Args:
        model: a model, or a ``DataParallel``, which splits each batch over its devices. Called with
            ``X``, a tensor or an array, on the model's device, it returns ``(rows, classes)``.
        batches: pairs ``(X, y)``; ``y`` has the number of the right class of each row, as a tensor
            on any device, an array or a list. A shard may come through ``prefetch``.

    Raises:
        NotAModelError: ``model`` is not a model.
        InvalidDataError: the batches have no rows, or ``y`` does not fit the outputs.
    """
    source = batches.batches if isinstance(batches, Prefetched) else batches
    if isinstance(source, Shard):
        own = group()

        def counted() -> tuple[int, int]:
            found = count_right(model, batches, source.padding)
            if own.size == 1:
                return found
            counts = array(np.array(found), device=own.device)
            right, rows = to_numpy(own.all_reduce(counts)).tolist()
            return right, rows

        own.exchange.part.agreement.steps += 1
        right, rows = own.exchange.part.whole(counted, is_one=False)
    else:
        right, rows = count_right(model, batches)
    if not rows:
        raise InvalidDataError(f"the batches, {shown(batches)}, have no rows.")
    return right / rows


def count_right(
    model: Any, batches: Iterable[tuple[Any, Any]], padding: Sequence[int] = ()
) -> tuple[int, int]:
    """How many rows ``model`` classifies correctly, and how many there are.

    ``padding``: how many of the last rows of each batch do not count.
    """
    found = model_of(model)
    backend = backend_of_model(found)
    if not callable(found):  # a tree of arrays
        raise NotAModelError(
            f"evaluate_accuracy calls its model, and {kind_of(found)} has no call."
        )
    right = rows = 0
    with _inference(found, backend), unrecorded(backend), ExitStack() as scope:
        devices = {backend.device_of(x) for x in backend.models.tensors(found).values()}
        home = devices.pop() if found is model and len(devices) == 1 else None
        if home is not None:
            scope.enter_context(home)
        for (X, y), padded in zip(_pairs(batches), chain(padding, repeat(0))):  # noqa: B905, N806
            there = convert(X, backend.name) if home is None else device_put(X, home)
            outputs = to_numpy(model(there))
            labels = to_numpy(y) if classify(y)[0] == TENSOR else _labels(y)
            if outputs.ndim != 2 or labels.shape != outputs.shape[:1]:
                raise InvalidDataError(
                    "evaluate_accuracy needs outputs of shape (rows, classes) and y of shape "
                    f"(rows,), not {outputs.shape} and {labels.shape}."
                )
            count = len(labels) - padded
            right += int((outputs.argmax(1) == labels)[:count].sum())
            rows += count
    return right, rows


def _labels(y: Any) -> Any:
    """Of an array, or a list, also of tensors without dimensions."""
    try:
        return np.asarray(device_get(y) if isinstance(y, (list, tuple)) else y)
    except (ValueError, TypeError, RuntimeError) as error:
        if isinstance(error, UnidevError):
            raise
        raise InvalidDataError(f"y must hold the numbers of classes, not {shown(y)}.") from error


def _pairs(batches: Any) -> Iterator[tuple[Any, Any]]:
    if classify(batches)[0] == TENSOR:  # some frameworks cannot iterate over theirs
        raise InvalidDataError(
            f"batches must be an iterable of pairs (X, y), not {shown(batches)}."
        )
    try:
        given = iter(batches)
    except TypeError:
        given = iter([batches])
    for batch in given:
        if not isinstance(batch, (tuple, list)) or len(batch) != 2:
            raise InvalidDataError(
                f"each of the batches must be a pair (X, y), not {shown(batch)}."
            )
        yield batch[0], batch[1]


@contextmanager
def _inference(model: Any, backend: Backend) -> Iterator[None]:
    layers = backend.layers
    modes = [] if isinstance(layers, Unsupported) else list(layers.modes(model))
    try:
        for layer, _ in modes:
            layers.set_mode(layer, is_training=False)
        yield
    finally:
        for layer, is_training in modes:
            layers.set_mode(layer, is_training=is_training)
