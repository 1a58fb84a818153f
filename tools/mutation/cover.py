"""What rows say together: which mutants are alike, and which checks and mutants others replace."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Caught = Mapping[str, frozenset[str]]
    """By mutant the checks that catch it."""


def alike(rows: Caught) -> list[list[str]]:
    """Groups of mutants that exactly the same checks catch."""
    groups: dict[frozenset[str], list[str]] = defaultdict(list)
    for mutant, checks in rows.items():
        groups[checks].append(mutant)
    return sorted(group for group in groups.values() if len(group) > 1)


def turned(rows: Caught) -> dict[str, frozenset[str]]:
    """By check the mutants that it catches."""
    found: dict[str, set[str]] = defaultdict(set)
    for mutant, checks in rows.items():
        for check in checks:
            found[check].add(mutant)
    return {check: frozenset(mutants) for check, mutants in found.items()}


def cover(sets: Mapping[str, frozenset[str]]) -> list[str]:
    """Names of sets that have together what all have: each time the one that adds the most."""
    left, chosen = set().union(*sets.values()) if sets else set(), []
    while left:
        best = max(sorted(sets), key=lambda name: len(sets[name] & left))
        chosen.append(best)
        left -= sets[best]
    return chosen


def replaceable(rows: Caught, checks: Iterable[str]) -> list[str]:
    """Checks that are the only one for no mutant."""
    alone = {check for caught in rows.values() if len(caught) == 1 for check in caught}
    return [check for check in checks if check not in alone]


def misnamed(rows: Caught, named: Caught) -> dict[str, frozenset[str]]:
    """By mutant the checks that it names and that do not catch it."""
    wrong = {mutant: named[mutant] - caught for mutant, caught in rows.items()}
    return {mutant: checks for mutant, checks in wrong.items() if checks}
