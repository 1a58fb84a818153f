"""Judges mutants of one plugin's backend, one after another in this process: ``... torch``.

Importing a framework takes longer than most mutants do, and a process that has it loaded must not
fork. So each mutant is undone before the next.

Each line that comes in is a folder and a mutant's name, or a folder and ``sound``: then the backend
itself is judged by all the checks that the mutants so far have named. If anything had stayed
broken, one of them would fail. Each line that goes out is the name of one that is judged.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from conformance_children import arguments
from mutants import MUTANTS, SOUND
from mutants.mutant import restore
from mutants_in_workers import Results, is_of_workers, put_results, results_of

from unidev.backends import loading
from unidev_conformance.running.child import Order

if TYPE_CHECKING:
    from collections.abc import Mapping


def judge(backend: str, only: tuple[str, ...], profile: str, folder: Path) -> None:
    """Run the checks ``only`` on the backend as it is now."""
    for table in (loading.backends_by_type, loading.device_getters, loading.copiers):
        table.clear()  # they hold methods that may have been replaced
    order = Order(backend=backend, profile=profile, simulated=2, only=only)
    words = arguments(order, folder)
    os.chdir(folder / "cwd")
    pytest.main(words)


def judge_mutant(backend: str, name: str, folder: Path) -> None:
    """Break the backend, judge it, and undo that."""
    mutant = MUTANTS.get(name) or SOUND[name]
    if name in MUTANTS and is_of_workers(name):
        put_results(in_workers(backend), name)
    else:
        mutant.breaks(type(loading.load_backend(backend)))
    try:
        judge(backend, mutant.caught_by, mutant.profile, folder)
    finally:
        restore()


@functools.cache
def in_workers(backend: str) -> list[dict[str, Results]]:
    """What the mutants of this backend's workers, all of them, come to there."""
    plugin = type(loading.load_backend(backend)).__module__.partition(".")[0]
    names = [name for name, each in MUTANTS.items() if each.plugin == plugin]
    return results_of([name for name in names if is_of_workers(name)], backend)


def judge_sound(backend: str, named: Mapping[str, set[str]], folder: Path) -> None:
    """Judge the backend itself, by profile; what workers do has been found out after the last."""
    for profile, checks in named.items():
        if any(check.startswith("workers.") for check in checks):
            put_results(in_workers(backend), "")
        judge(backend, tuple(checks), profile, folder / profile)
        restore()


def main(backend: str) -> None:
    """Take orders until there are no more."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what pytest prints is no answer
    named: dict[str, set[str]] = {}
    for line in sys.stdin:
        folder, name = json.loads(line)
        if name == "sound":
            judge_sound(backend, named, Path(folder))
        else:
            judge_mutant(backend, name, Path(folder))
            if name in MUTANTS:
                profile = MUTANTS[name].profile
                named.setdefault(profile, set()).update(MUTANTS[name].caught_by)
        print(name, file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
