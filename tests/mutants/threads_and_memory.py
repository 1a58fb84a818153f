"""Copies that get in each other's way, and memory that does not come back."""

from __future__ import annotations

import time
from typing import Any

from mutants.mutant import around, mutant
from unidev.backends.numpy_backend.simulated_array import SimulatedArray


@mutant("threads.first_use_from_several_threads")
def a_table_is_read_while_it_is_filled(backend):
    """Who comes second at first use finds it empty: MXNet's numpy semantics, set in one thread."""
    table: dict[str, Any] = {}
    has_begun: list[bool] = []

    @around(backend)
    def zeros(make, self, shape, dtype, device):
        if not has_begun:
            has_begun.append(True)
            time.sleep(0.2)
            table.update(self.dtypes)
        if not table:
            raise KeyError(dtype)
        return make(self, shape, dtype, device)


@mutant("memory.returns_after_del", "memory.loop_of_copies_stays_flat")
def copy_leaks_memory(backend):
    """Every copy is kept: MXNet's reentered ``Context``, a cache without a bound."""
    kept: list[Any] = []

    @around(backend)
    def copy_to(copy, self, x, device, non_blocking):
        made = copy(self, x, device, non_blocking)
        kept.append(made)
        return made


@mutant("memory.no_reference_cycle", "memory.returns_after_del", around="copy_to")
def copy_in_a_cycle(copy, self, x, device, non_blocking):
    """A copy refers to itself, so that its memory waits for the garbage collector."""
    made = copy(self, x, device, non_blocking)
    if isinstance(made, SimulatedArray):
        vars(made)["itself"] = made
    return made


@mutant("memory.returns_after_del", "copy.allocated_bytes_grow", around="copy_to")
def the_first_copy_stays_with_its_source(copy, self, x, device, non_blocking):
    """Further copies are made of that one, and move nothing: TensorFlow's mirrors."""
    if not isinstance(x, SimulatedArray) or x.device == str(device):
        return copy(self, x, device, non_blocking)
    mirrors = vars(x).setdefault("mirrors", {})
    if device not in mirrors:
        mirrors[device] = copy(self, x, device, non_blocking)
    return copy(self, mirrors[device], device, non_blocking)
