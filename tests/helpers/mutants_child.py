"""Judges mutants of one plugin's backend, one after another in this process: ``... torch``.

Importing a framework takes longer than most mutants do, and a process that has it loaded must not
fork. So each mutant is undone before the next.

Each line that comes in is a folder and a mutant's name, or a folder and ``sound``: then the backend
itself is judged by all the checks that the mutants so far have named. If anything had stayed
broken, one of them would fail. Each line that goes out is the name of one that is judged.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from conformance_children import arguments
from mutants import MUTANTS, SOUND
from mutants.mutant import restore

from unidev.conformance.running.child import Order
from unidev.registry import loading


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
    mutant.breaks(type(loading.load_backend(backend)))
    try:
        judge(backend, mutant.caught_by, mutant.profile, folder)
    finally:
        restore()


def main(backend: str) -> None:
    """Take orders until there are no more."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what pytest prints is no answer
    named: dict[str, set[str]] = {}
    for line in sys.stdin:
        folder, name = json.loads(line)
        if name == "sound":
            for profile, checks in named.items():
                judge(backend, tuple(checks), profile, Path(folder) / profile)
        else:
            judge_mutant(backend, name, Path(folder))
            if name in MUTANTS:
                profile = MUTANTS[name].profile
                named.setdefault(profile, set()).update(MUTANTS[name].caught_by)
        print(name, file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
