"""Loops of ``tools/training_table.py`` in workers in which something is broken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from mutants import MUTANTS
from mutants.mutant import replace, restore
from training_loops import in_workers

import unidev
from unidev.data.sharding import Shard
from unidev.distributed.exchange.data_parallel import DataParallel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from training_loops import Values


def a_shard_is_read_twice() -> None:
    """By workers 0 and 1; what is worker 1's is read by none."""
    sound = Shard.__init__

    @replace(Shard)
    def __init__(self: Any, rows: Any, sharding: Any, rank: int, size: int) -> None:
        sound(self, rows, sharding, 0 if rank == 1 else rank, size)


def bits_differ_on_worker_1() -> None:
    """The last bit of each gradient: far less than float32 makes of other batches."""
    sound = DataParallel._exchanged

    @replace(DataParallel)
    def _exchanged(self: Any, *arguments: Any) -> Any:
        loss, gradients = sound(self, *arguments)
        if unidev.group().rank == 1:
            gradients = {name: _next(x) for name, x in gradients.items()}
        return loss, gradients


def nothing_is_exchanged() -> None:
    @replace(DataParallel)
    def _exchanged(self: Any, loss: Any, gradients: Any, *_: Any) -> Any:
        return loss, gradients


def nothing_is_trained() -> None:
    """Workers whose parameters stay what they were have equal bits, too."""

    @replace(unidev)
    def sgd(model: Any, gradients: Any, *, lr: float) -> None:
        return None


def _next(x: Any) -> Any:
    return unidev.array(np.nextafter(unidev.to_numpy(x), np.float32(9)), device=unidev.device_of(x))


_FAULTS: tuple[Callable[[], None], ...] = (
    a_shard_is_read_twice, bits_differ_on_worker_1,
    nothing_is_exchanged, nothing_is_trained,
)  # fmt: skip
_BROKEN = (
    "workers_count_the_same_whatever_their_rows",
    "accumulated_steps_count_the_same_whatever_their_rows",
    "accumulated_steps_are_forgotten",
    "a_repeated_row_counts_twice",
    "padded_rows_are_counted",
    "padded_rows_are_gathered",
    "a_norm_has_the_gradient_of_its_own_rows",
    "gradients_of_norms_count_the_same_whatever_the_rows",
)
"""Mutants of the suite, in which the table must see something, too."""


def with_faults(kinds: Sequence[str], seed: int) -> dict[str, dict[str, Values]]:
    """The values of this worker at the end of each loop, by the name of the fault."""
    breaks = {each.__name__: each for each in _FAULTS}
    breaks |= {name: lambda name=name: MUTANTS[name].breaks(None) for name in _BROKEN}
    found = {}
    for name, broken in breaks.items():
        broken()
        try:
            found[name] = in_workers(kinds, seed)
        finally:
            restore()
    found["sound"] = in_workers(kinds, seed)
    return found
