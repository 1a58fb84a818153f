"""The rows of all workers in one tree: what each has padded is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.backends.boundary import call
from unidev.errors import InvalidDataError
from unidev.parallel.devices.packing import unrecorded
from unidev.parallel.exchange.trees import Tree
from unidev.system.arguments import non_negative_integer
from unidev.system.wording import count_text, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Tensor = Any
    Gather = Callable[[Any], Sequence[Any]]
    """``Group.all_gather``."""


def gathered_rows(tree: Any, padded: object, gather: Gather) -> Any:
    """As ``Group.gather_rows``, by the group's ``gather``."""
    given = Tree(tree, is_whole=True)
    rows = _rows(given)
    left_out = non_negative_integer(padded, rows)
    if left_out is None:
        raise InvalidDataError(
            f"padded must be a number from 0 to {count_text(rows, 'row')} of this worker, not "
            f"{shown(padded)}."
        )
    backend, device = given.backend, given.device
    own = backend.from_numpy(np.array([rows, left_out]), backend.dtypes["int64"], device)
    counts = [backend.to_numpy(each).tolist() for each in gather(own)]
    most = max(count for count, _ in counts)
    use = backend.collectives

    def filled(x: Tensor) -> Tensor:
        shape = (most - rows, *(int(size) for size in x.shape[1:]))
        return use.concatenate([x, backend.zeros(shape, x.dtype, device)])

    def joined(parts: Sequence[Tensor]) -> Tensor:
        kept = zip(parts, counts, strict=True)
        return use.concatenate([use.rows(x, 0, count - less) for x, (count, less) in kept])

    doing = "gathering rows of the workers"
    with unrecorded(backend):
        equal = given.tensors
        if rows < most:
            equal = [call(backend, filled, x, doing=doing) for x in given.tensors]
        trees = [Tree(each).tensors for each in gather(given.with_tensors(equal))]
        found = [call(backend, joined, parts, doing=doing) for parts in zip(*trees, strict=True)]
    return given.with_tensors(found)


def _rows(tree: Tree) -> int:
    found: dict[int, int] = {}
    for position, kind in enumerate(tree.kinds):
        if not kind.shape:
            raise InvalidDataError(f"{tree.path(position)} has no dimension, so no rows.")
        found.setdefault(kind.shape[0], position)
    if len(found) > 1:
        listed = ", ".join(f"{tree.path(at)}: {rows}" for rows, at in found.items())
        raise InvalidDataError(
            f"gather_rows needs tensors with the same number of rows; found {listed}."
        )
    return next(iter(found))
