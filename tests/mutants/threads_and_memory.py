"""Copies that get in each other's way, and memory that does not come back."""

from __future__ import annotations

import time
from typing import Any

from mutants.mutant import mutant, replace, replace_value


@mutant("threads.concurrent_copies_are_right")
def threads_share_a_staging_buffer(backend: Any) -> None:
    """Each copy goes through one buffer of the process: a pinned buffer without a lock."""
    import numpy as np

    copy = backend.copy_to
    staged: list[Any] = [None]

    @replace(backend)
    def copy_to(self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        staged[0] = copy(self, x, device, non_blocking)
        time.sleep(1e-4)  # lets the other threads in, as a transfer does
        found = staged[0]
        return found if np.shape(found) == np.shape(x) else copy(self, x, device, non_blocking)


@mutant("threads.first_use_from_several_threads")
def a_table_is_read_while_it_is_filled(backend: Any) -> None:
    """Who comes second at first use finds it empty: MXNet's numpy semantics, set in one thread."""
    filled = backend.dtypes.func  # of the cached_property
    table: dict[str, Any] = {}
    has_begun: list[bool] = []

    def dtypes(self: Any) -> dict[str, Any]:
        if not has_begun:
            has_begun.append(True)
            time.sleep(0.2)
            table.update(filled(self))
        return table

    replace_value(backend, "dtypes", property(dtypes))


@mutant(
    "memory.returns_after_del",
    "memory.loop_of_copies_stays_flat",
)
def copy_leaks_memory(backend: Any) -> None:
    """Every copy is kept: MXNet's reentered ``Context``, a cache without a bound."""
    copy = backend.copy_to
    kept: list[Any] = []

    @replace(backend)
    def copy_to(self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        made = copy(self, x, device, non_blocking)
        kept.append(made)
        return made


@mutant("memory.no_reference_cycle", "memory.returns_after_del")
def copy_in_a_cycle(backend: Any) -> None:
    """A copy refers to itself, so that its memory waits for the garbage collector."""
    from unidev.numpy_backend.simulated_array import SimulatedArray

    copy = backend.copy_to

    @replace(backend)
    def copy_to(self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        made = copy(self, x, device, non_blocking)
        if isinstance(made, SimulatedArray):
            vars(made)["itself"] = made
        return made


@mutant("memory.returns_after_del", "copy.allocated_bytes_grow")
def the_first_copy_stays_with_its_source(backend: Any) -> None:
    """Further copies are made of that one, and move nothing: TensorFlow's mirrors."""
    from unidev.numpy_backend.simulated_array import SimulatedArray

    copy = backend.copy_to

    @replace(backend)
    def copy_to(self: Any, x: Any, device: Any, non_blocking: bool) -> Any:
        if not isinstance(x, SimulatedArray) or x.device == str(device):
            return copy(self, x, device, non_blocking)
        mirrors = vars(x).setdefault("mirrors", {})
        if device not in mirrors:
            mirrors[device] = copy(self, x, device, non_blocking)
        return copy(self, mirrors[device], device, non_blocking)
