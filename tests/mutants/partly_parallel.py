"""Reductions, shards and gathered rows that are wrong in part: for some dtypes, sizes or layouts.

Each conformed once, as the checks listed tensors of at most 300 elements, of small whole numbers,
contiguous, and batches that were split almost evenly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mutants.mutant import around
from mutants.parallel import multi_mutant
from unidev.backends.numpy_backend.collectives import NumpyCollectives, _like, _plain

if TYPE_CHECKING:
    from collections.abc import Callable


def _combine(change: Callable[[Any, Any, str, Callable[..., Any]], Any]) -> None:
    """Let ``change(a, b, op, sound)`` combine two plain arrays; its result is written to ``a``."""

    @around(NumpyCollectives)
    def combine(sound: Any, self: Any, a: Any, b: Any, op: str) -> Any:
        plain = _plain(a)
        plain[...] = change(plain.copy(), _plain(b), op, lambda x, y: sound(self, x.copy(), y, op))
        return a


@multi_mutant("reducing.values", "reducing.order")
def long_tails_are_left_out(backend):
    """Beyond 1,024 elements whole blocks of 256 are added, and the rest is the first tensor's."""

    def blocks(a, b, op, sound):
        total = sound(a, b)
        if len(a) > 1024 and len(a) % 256:
            start = len(a) // 256 * 256
            total[start:] = a[start:]
        return total

    _combine(blocks)


@multi_mutant("reducing.values")
def nan_loses(backend):
    """``fmin`` and ``fmax``, as the C library has them: a number wins over NaN."""

    functions = {"min": np.fmin, "max": np.fmax}
    _combine(lambda a, b, op, sound: functions[op](a, b) if op in functions else sound(a, b))


@multi_mutant("reducing.in_place", around=".collectives:NumpyCollectives.write")
def a_view_is_written_with_what_is_around_it(sound, self, targets, values):
    """A write in whole rows of the memory behind a view: alignment that is rounded down."""
    for target in targets:
        base = _plain(target)
        while isinstance(base.base, np.ndarray):
            base = base.base
        if base.size > target.size and base.size:
            base.reshape(-1)[:1] = 0
    sound(self, targets, values)


@multi_mutant("splitting.shards", everywhere="unidev.parallel.devices.batches:shares")
def the_rest_goes_to_the_last_shard(sound, rows, count, weights):
    """By weights each device gets its quota, rounded down, and the last one what remains."""
    if weights is None:
        return sound(rows, count, weights)
    sizes = [int(rows * weight / sum(weights)) for weight in weights]
    return [*sizes[:-1], rows - sum(sizes[:-1])]


@multi_mutant("splitting.gather_inverts", around=".collectives:NumpyCollectives.concatenate")
def gathers_integers_as_doubles(sound, self, tensors):
    """int64 goes by way of float64, which has no 2**53 + 1: a join of mixed columns."""
    made = sound(self, tensors)
    return _like(_plain(made).astype("float64").astype("int64"), made) \
        if made.dtype == "int64" else made  # fmt: skip


@multi_mutant("splitting.specials", around=".collectives:NumpyCollectives.concatenate")
def gathered_rows_have_the_machines_byte_order(sound, self, tensors):
    """As NumPy makes one array of several."""
    return _like(np.concatenate([_plain(x) for x in tensors]), tensors[0])
