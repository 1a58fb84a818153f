"""Mutants of what workers do, judged one after another in the same workers.

To start workers takes ten times as long as the functions that one check needs of them.
"""

from __future__ import annotations

from typing import Any

from mutants import MUTANTS
from mutants.mutant import replace_value, restore

import unidev
from unidev_conformance.checks.multi import test_workers
from unidev_conformance.kit.processes import in_workers

Results = dict[str, tuple[bool, Any]]
"""What ``in_workers.several`` returns."""


def _both_ways(*names: str) -> tuple[str, ...]:
    return (*names, *(f"{name}{in_workers.BY_MEMORY}" for name in names))


_FUNCTIONS = {
    "workers.values": _both_ways("reductions", "extremes"),
    "workers.bits": _both_ways("reductions", "sums_by_bits"),
    "workers.weights": ("weighted",),
    "workers.pieces": _both_ways("pieces"),
    "workers.in_place": ("in_place",),
    "workers.differences": ("structures_that_differ",),
    "workers.calls_elsewhere": ("calls_elsewhere",),
    "workers.leaving": (),
    "workers.shards": ("shards",),
    "workers.own_gpus": ("own_gpus",),
    "workers.refused_shards": ("refused_shards",),
    "workers.evaluation": (),
    "workers.overlap": ("overlapped",),
    "workers.data_parallel": ("gradients",),
    "workers.accumulation": ("accumulation",),
    "workers.synchronized_norms": ("synchronized_norms",),
    "workers.skipped": ("skipped",),
    "workers.steps_elsewhere": ("steps_elsewhere",),
}
"""The functions whose results each check looks at, besides those that always run."""
_WORKERS = 3


def is_of_workers(name: str) -> bool:
    """Whether the mutant has to be broken in the workers' own processes."""
    return all(check in _FUNCTIONS for check in MUTANTS[name].caught_by)


def ask_no_more(checks: tuple[str, ...] | None) -> None:
    """Have workers run in this process only what these checks look at, if all are of workers."""
    if checks and all(check in _FUNCTIONS for check in checks):
        asked = {name for check in checks for name in _FUNCTIONS[check]}
        test_workers._EXCHANGES = tuple(sorted(asked))
        test_workers._STEPS = test_workers._BY_MEMORY = ()


def results_of(names: list[str], backend: str) -> list[dict[str, Results]]:
    """By rank and mutant the results of what its checks look at; under ``""``, of nothing broken.

    Those come last: if a mutant had left anything broken, or workers out of step, they would show.
    """
    return unidev.run(
        _broken, names, workers=_WORKERS, gpus_per_worker=0, backend=backend, timeout=120
    )


def put_results(found: list[dict[str, Results]], name: str) -> None:
    """Have checks look at these until ``restore``, in place of a run of their own."""
    replace_value(test_workers, "_run", lambda *_: [own[name] for own in found])


def _broken(names: list[str]) -> dict[str, Results]:
    found = {}
    for name in names:
        functions = [each for check in MUTANTS[name].caught_by for each in _FUNCTIONS[check]]
        MUTANTS[name].breaks(type(unidev.active_backend()))
        try:
            found[name] = in_workers.several(*functions)
        finally:
            restore()
        unidev.group().exchange.forget_plans()  # the mutant may have made them
    every = {each for n in names for check in MUTANTS[n].caught_by for each in _FUNCTIONS[check]}
    return {**found, "": in_workers.several(*sorted(every))}
