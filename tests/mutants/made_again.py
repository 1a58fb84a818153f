"""Tensors that share what an earlier one alike has: its memory, or its numbers."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from mutants.mutant import around, in_place_of, mutant, replace
from mutants.sequences import SMALL, TENSORS, Kept, KeptOf
from unidev.parallel.batches.uploads import Uploads
from unidev.tensors import creating, generator
from unidev.tensors.creating import arange, zeros_like
from unidev.tensors.devices import default_device

if TYPE_CHECKING:
    from collections.abc import Callable


def _made_once_of(maker: Callable[..., Any]) -> None:
    """Let ``maker`` give what it has given for the same tensor, as a view."""
    kept = KeptOf()

    @in_place_of(maker)
    def once(x: Any, /, *given: Any, **options: Any) -> Any:
        known = kept.get(x) or {}
        key = str((given[:2], sorted(options.items())))
        found = known.get(key, lambda: None)()
        if found is not None:
            return found.view()
        made = maker(x, *given, **options)
        kept.put(x, {**known, key: weakref.ref(made)})
        return made


def _made_once(maker: Callable[..., Any], key_of: Callable[..., Any]) -> None:
    """Let ``maker`` give what it has given for the same key, as a view."""
    kept = Kept()

    @in_place_of(maker)
    def once(*given: Any, **options: Any) -> Any:
        key = key_of(*given, **options)
        found = kept.get(key)
        return kept.put(key, maker(*given, **options)) if found is None else found.view()


@mutant(TENSORS)
def ranges_are_made_once(backend):
    """``arange`` of the same numbers is the same memory: a constant that a compiler interns."""

    def key(*bounds, dtype=None, device=None):
        return bounds, str(dtype), default_device(device)

    _made_once(arange, key)


@mutant(TENSORS)
def a_spare_number_survives_the_seed(backend):
    """Box and Muller's method makes two normal numbers, and the second is kept: C's ``gasdev``."""

    draw = generator.draw
    spare: list[Any] = []

    @in_place_of(draw)
    def drawn(distribution, shape, dtype):
        made = draw(distribution, shape, dtype)
        if distribution == "standard_normal" and made.size % 2:
            first = made.flat[0]
            if spare:
                made.flat[0] = spare.pop()
            else:
                spare.append(-first)
        return made


@mutant(TENSORS)
def an_array_seen_before_is_not_uploaded(backend):
    """Equal arrays become one tensor, while that has their values: Ray's store of objects."""
    kept = Kept()

    @around(backend)
    def from_numpy(make, self, array, dtype, device):
        made = make(self, array, dtype, device)
        key = made.shape, str(made.dtype), device
        found = kept.get(key)
        if found is None or made.nbytes > SMALL or found.tobytes() != made.tobytes():
            return kept.put(key, made)
        return found.view()


@mutant(TENSORS)
def a_filled_tensor_is_copied_from_one_alike(backend):
    """The number is left out of the key by which what was filled before is found."""

    make, clear = backend.full, backend.zeros
    kept = Kept()

    @replace(backend)
    def zeros(self, shape, dtype, device):
        return kept.put((shape, dtype, device), clear(self, shape, dtype, device))

    @replace(backend)
    def full(self, shape, value, dtype, device):
        made = make(self, shape, value, dtype, device)
        known = kept.get((shape, dtype, device))
        if known is None or made.nbytes > SMALL:
            return kept.put((shape, dtype, device), made)
        np.copyto(made.view(np.ndarray), known.view(np.ndarray))
        return made


@mutant(TENSORS)
def a_tensor_has_one_likeness(backend):
    """``zeros_like`` of a tensor gives what it gave before: a buffer for its gradient."""

    _made_once_of(zeros_like)


@mutant(TENSORS)
def a_second_array_of_a_tensor_is_the_first(backend):
    """``array`` of a tensor that it has made an array of gives that one: a cache of conversions."""

    _made_once_of(creating.array_of_tensor)


@mutant(TENSORS)
def batches_have_the_buffers_of_the_last_loop(backend):
    """The first batch of a loop is written over the first one of the loop before: pinned slots."""

    kept = Kept()

    @around(Uploads)
    def _copy(copy, self, x, target, backend):
        made = copy(self, x, target, backend)
        number = vars(self)["number"] = vars(self).get("number", 0) + 1
        key = number, made.shape, made.dtype, target
        known = kept.get(key)
        if known is None or made.nbytes > SMALL:
            return kept.put(key, made)
        known[...] = made
        return known.view()


@mutant(TENSORS)
def recycled_zeros_are_not_cleared(backend):
    """Zeros have the numbers of zeros that were dropped, as long as there are others: a pool."""
    spare: dict[Any, Any] = {}
    in_use: list[Any] = []

    def give_back(key, block):
        in_use.remove(key)
        spare[key] = block
        if not in_use:
            spare.clear()

    @around(backend)
    def zeros(make, self, shape, dtype, device):
        made = make(self, shape, dtype, device)
        if made.nbytes > SMALL:
            return made
        key = shape, dtype, device
        if key in spare:
            made[...] = spare.pop(key)
        in_use.append(key)
        seen = made.view()  # of memory that outlives it
        weakref.finalize(seen, give_back, key, made)
        return seen
