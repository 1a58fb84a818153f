"""Reductions, shards and gathered rows that are wrong in part: for some dtypes, sizes or layouts.

Each conformed once, as the checks listed tensors of at most 300 elements, of small whole numbers,
contiguous, and batches that were split almost evenly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mutants.mutant import around, in_place_of, replace_value
from mutants.parallel import multi_mutant
from unidev.backends.numpy_backend.collectives import NumpyCollectives, _like, _plain
from unidev.parallel.devices import packing

if TYPE_CHECKING:
    from collections.abc import Callable


def _combine(change: Callable[[Any, Any, str, Callable[..., Any]], Any]) -> None:
    """Let ``change(a, b, op, sound)`` combine two plain arrays; its result is written to ``a``."""

    @around(NumpyCollectives)
    def combine(sound: Any, self: Any, a: Any, b: Any, op: str) -> Any:
        plain = _plain(a)
        plain[...] = change(plain.copy(), _plain(b), op, lambda x, y: sound(self, x.copy(), y, op))
        return a


@multi_mutant("reducing.values")
def integer_sums_saturate(backend):
    """A sum beyond the largest integer is the largest: the arithmetic of signal processors."""

    def saturated(a, b, op, sound):
        if op != "sum" or a.dtype.kind not in "iu":
            return sound(a, b)
        limits = np.iinfo(a.dtype)
        exact = a.astype(object) + b.astype(object)
        return np.clip(exact, limits.min, limits.max).astype(a.dtype)

    _combine(saturated)


@multi_mutant("reducing.values", around=".collectives:NumpyCollectives.scale")
def means_of_float64_by_float32(sound, self, flat, factor):
    """The factors are numbers of float32, and so is the product: a kernel for the usual dtype."""
    plain = _plain(flat)
    if plain.dtype == "float64":
        plain[...] = plain.astype("float32")
    return sound(self, flat, factor)


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
def float16_is_added_in_float16(backend):
    """2048 + 1 + 1 is 2048: each sum is rounded to the dtype of the gradients."""
    from types import MappingProxyType

    replace_value(NumpyCollectives, "wider", MappingProxyType({}))


@multi_mutant("reducing.values")
def nan_loses(backend):
    """``fmin`` and ``fmax``, as the C library has them: a number wins over NaN."""

    functions = {"min": np.fmin, "max": np.fmax}
    _combine(lambda a, b, op, sound: functions[op](a, b) if op in functions else sound(a, b))


@multi_mutant("reducing.values")
def a_bucket_holds_sixteen_tensors(backend):
    """Further tensors of a dtype keep the first device's values: a table of fixed length."""

    sound = packing.reduce_to_each

    @in_place_of(sound)
    def reduce_to_each(backend, lists, kinds, devices, how):
        found = sound(backend, lists, kinds, devices, how)
        seen: dict[Any, int] = {}
        for position, kind in enumerate(kinds):
            seen[kind.dtype] = seen.get(kind.dtype, 0) + 1
            if seen[kind.dtype] > 16:
                for into, device in zip(found, devices, strict=True):
                    into[position] = backend.copy_to(lists[0][position], device, False)
        return found


@multi_mutant("reducing.values", around=".collectives:NumpyCollectives.unpack")
def numbers_without_axes_get_one(sound, self, flat, shapes):
    """A loss of shape ``()`` comes back with the shape ``(1,)``."""
    return sound(self, flat, [shape or (1,) for shape in shapes])


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


@multi_mutant("splitting.shards")
def shards_of_halves_are_of_floats(backend):
    """float16 comes as float32, for which alone there is a kernel."""

    sound = packing.copied

    @in_place_of(sound)
    def copied(backend, operation, x, device):
        found = sound(backend, operation, x, device)
        if operation == "split_batch" and x.dtype == "float16":
            return backend.cast(found, backend.dtypes["float32"], device)
        return found


@multi_mutant("splitting.gather_inverts", around=".collectives:NumpyCollectives.concatenate")
def gathers_nothing_after_an_empty_shard(sound, self, tensors):
    """The first shard without rows is taken for the end of the list."""
    empty = [number for number, x in enumerate(tensors) if len(x) == 0]
    return sound(self, tensors[: max(1, empty[0])] if empty else tensors)


@multi_mutant("splitting.gather_inverts", around=".collectives:NumpyCollectives.concatenate")
def gathers_integers_as_doubles(sound, self, tensors):
    """int64 goes by way of float64, which has no 2**53 + 1: a join of mixed columns."""
    made = sound(self, tensors)
    return _like(_plain(made).astype("float64").astype("int64"), made) \
        if made.dtype == "int64" else made  # fmt: skip
