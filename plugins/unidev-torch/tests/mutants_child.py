"""Judges mutants of PyTorch's backend, one after another in this process.

Importing PyTorch takes longer than most mutants do, and a process that has it loaded must not fork.
So each mutant is undone before the next. In the end the backend itself is judged by all the checks
that the mutants named: if anything had stayed broken, one of them would fail.

    python mutants_child.py FOLDER NAME NAME …
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import pytest
from conformance_children import arguments
from mutants import MUTANTS, SOUND
from mutants.mutant import restore

from unidev.conformance.running.child import Order
from unidev.registry import loading


def judge(only: tuple[str, ...], profile: str, folder: Path) -> None:
    """Run the checks ``only`` on the backend as it is now."""
    for table in (loading.backends_by_type, loading.device_getters, loading.copiers):
        table.clear()  # they hold methods that have been replaced
    order = Order(backend="torch", profile=profile, simulated=2, only=only)
    pytest.main(arguments(order, folder))
    gc.collect()


def main(folder: Path, names: list[str]) -> None:
    """Judge each mutant, and then the backend with nothing broken."""
    named: dict[str, set[str]] = {}
    backend = type(loading.load_backend("torch"))
    for name in names:
        mutant = MUTANTS.get(name) or SOUND[name]
        mutant.breaks(backend)
        try:
            judge(mutant.caught_by, mutant.profile, folder / name)
        finally:
            restore()
        if mutant.result == "fail":
            named.setdefault(mutant.profile, set()).update(mutant.caught_by)
    for profile, checks in named.items():
        judge(tuple(checks), profile, folder / f"sound-{profile}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
