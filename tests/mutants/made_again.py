"""Tensors that share what an earlier one alike has: its memory, or its numbers."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from mutants.mutant import in_place_of, mutant, replace
from mutants.sequences import SMALL, TENSORS, Kept, KeptOf

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
def ranges_are_made_once(backend: Any) -> None:
    """``arange`` of the same numbers is the same memory: a constant that a compiler interns."""
    from unidev.devices.finding import default_device
    from unidev.tensors.creating import arange

    def key(*bounds: Any, dtype: Any = None, device: Any = None) -> Any:
        return bounds, str(dtype), default_device(device)

    _made_once(arange, key)


@mutant(TENSORS)
def a_spare_number_survives_the_seed(backend: Any) -> None:
    """Box and Muller's method makes two normal numbers, and the second is kept: C's ``gasdev``."""
    from unidev.tensors import generator

    draw = generator.draw
    spare: list[Any] = []

    @in_place_of(draw)
    def drawn(distribution: str, shape: tuple[int, ...], dtype: str) -> Any:
        made = draw(distribution, shape, dtype)
        if distribution == "standard_normal" and made.size % 2:
            first = made.flat[0]
            if spare:
                made.flat[0] = spare.pop()
            else:
                spare.append(-first)
        return made


@mutant(TENSORS)
def an_array_seen_before_is_not_uploaded(backend: Any) -> None:
    """Equal arrays become one tensor, while that has their values: Ray's store of objects."""
    make = backend.from_numpy
    kept = Kept()

    @replace(backend)
    def from_numpy(self: Any, array: Any, dtype: Any, device: Any) -> Any:
        made = make(self, array, dtype, device)
        key = made.shape, str(made.dtype), device
        found = kept.get(key)
        if found is None or made.nbytes > SMALL or found.tobytes() != made.tobytes():
            return kept.put(key, made)
        return found.view()


@mutant(TENSORS)
def a_filled_tensor_is_copied_from_one_alike(backend: Any) -> None:
    """The number is left out of the key by which what was filled before is found."""
    import numpy as np

    make, clear = backend.full, backend.zeros
    kept = Kept()

    @replace(backend)
    def zeros(self: Any, shape: Any, dtype: Any, device: Any) -> Any:
        return kept.put((shape, dtype, device), clear(self, shape, dtype, device))

    @replace(backend)
    def full(self: Any, shape: Any, value: Any, dtype: Any, device: Any) -> Any:
        made = make(self, shape, value, dtype, device)
        known = kept.get((shape, dtype, device))
        if known is None or made.nbytes > SMALL:
            return kept.put((shape, dtype, device), made)
        np.copyto(made.view(np.ndarray), known.view(np.ndarray))
        return made


@mutant(TENSORS)
def a_tensor_has_one_likeness(backend: Any) -> None:
    """``zeros_like`` of a tensor gives what it gave before: a buffer for its gradient."""
    from unidev.tensors.creating import zeros_like

    _made_once_of(zeros_like)


@mutant(TENSORS)
def a_second_array_of_a_tensor_is_the_first(backend: Any) -> None:
    """``array`` of a tensor that it has made an array of gives that one: a cache of conversions."""
    from unidev.tensors import creating

    _made_once_of(creating._array_of_tensor)


@mutant(TENSORS)
def batches_have_the_buffers_of_the_last_loop(backend: Any) -> None:
    """The first batch of a loop is written over the first one of the loop before: pinned slots."""
    from unidev.data.uploads import Uploads

    copy = Uploads._copy
    kept = Kept()

    @replace(Uploads)
    def _copy(self: Any, x: Any, target: Any, backend: Any) -> Any:
        made = copy(self, x, target, backend)
        number = vars(self)["number"] = vars(self).get("number", 0) + 1
        key = number, made.shape, made.dtype, target
        known = kept.get(key)
        if known is None or made.nbytes > SMALL:
            return kept.put(key, made)
        known[...] = made
        return known.view()


@mutant(TENSORS)
def recycled_zeros_are_not_cleared(backend: Any) -> None:
    """Zeros have the numbers of zeros that were dropped, as long as there are others: a pool."""
    make = backend.zeros
    spare: dict[Any, Any] = {}
    in_use: list[Any] = []

    def give_back(key: Any, block: Any) -> None:
        in_use.remove(key)
        spare[key] = block
        if not in_use:
            spare.clear()

    @replace(backend)
    def zeros(self: Any, shape: Any, dtype: Any, device: Any) -> Any:
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
