"""Which checks catch each mutant, and which mutants and checks are not needed beside others?

    nox -s matrix -- numpy --profile tensor

Judges each mutant of that backend by all checks of its profile, not only by those that it names,
keeps each row as it comes (the same command goes on where it was stopped), and prints what the rows
say: mutants that the same checks catch, and checks that no mutant needs.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from mutants import MUTANTS
from mutation import cover
from mutation.rows import BACKENDS, SOUND, Rows, Warm

from unidev_conformance.running.catalog import all_checks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mutants.mutant import Mutant

ROOT = Path(__file__).parents[1]
KEPT = Path(__file__).with_name("mutation") / "kept.toml"
"""Mutants of one row that stay, each with its reason."""


def main(words: Sequence[str]) -> int:
    """Judge what has no row yet, and print what the rows say."""
    asked = _options().parse_args(words)
    chosen = [
        each
        for each in MUTANTS.values()
        if (each.plugin, each.profile) == (BACKENDS[asked.backend], asked.profile)
        and each.result == "fail"
        and (not asked.only or each.name in asked.only)
    ]
    rows = Rows(asked.folder / f"{asked.backend}-{asked.profile}.jsonl")
    try:
        _judge(chosen, rows, asked)
    except KeyboardInterrupt:
        print("stopped; the same command goes on", flush=True)
        return 130
    finally:
        _print([each for each in chosen if rows.has(each)], rows, asked)
    return 0


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("backend", choices=BACKENDS)
    parser.add_argument("--profile", default="tensor")
    parser.add_argument("--only", nargs="*", help="mutants, by name")
    parser.add_argument(
        "--without",
        nargs="*",
        default=[],
        help="checks that cost too much: they judge only mutants that name them",
    )
    parser.add_argument("--folder", type=Path, default=ROOT / ".cache" / "matrix")
    return parser


def _judge(chosen: list[Mutant], rows: Rows, asked: argparse.Namespace) -> None:
    left = [each for each in (*_sound(chosen, asked), *chosen) if not rows.has(each)]
    print(f"{len(chosen)} mutants; {len(left)} rows to judge", flush=True)
    warm = Warm(BACKENDS[asked.backend])
    with tempfile.TemporaryDirectory(prefix="unidev-matrix-", ignore_cleanup_errors=True) as top:
        for number, each in enumerate(left, 1):
            row = warm.row(each, Path(top, str(number)), asked.without)
            rows.add(row)
            print(
                f"{number}/{len(left)} {row.mutant}: {row.cpu:.1f} CPU s, "
                f"{len(row.caught)} of {row.judged}: {' '.join(row.caught)[:200]}",
                flush=True,
            )


def _sound(chosen: list[Mutant], asked: argparse.Namespace) -> list[Mutant]:
    own = dataclasses.replace(SOUND[asked.backend], profile=asked.profile)
    counts = sorted({each.simulated_count for each in chosen})
    return [dataclasses.replace(own, simulated_count=count) for count in counts]


def _print(chosen: list[Mutant], rows: Rows, asked: argparse.Namespace) -> None:
    sound = {
        each.simulated_count: rows.caught(each) for each in _sound(chosen, asked) if rows.has(each)
    }
    caught = {
        each.name: rows.caught(each) - sound.get(each.simulated_count, frozenset())
        for each in chosen
    }
    checks = [check.id for check in all_checks(asked.profile)]
    named = {each.name: frozenset(each.caught_by) for each in chosen}
    print("\nmutants that the same checks catch:")
    kept = tomllib.loads(KEPT.read_text(encoding="utf-8"))["mutants"]
    for group in cover.alike(caught):
        if set(group) <= set(kept):
            continue
        print(f"  {', '.join(group)}: {' '.join(sorted(caught[group[0]]))}")
    print("\nmutants that a check which they name does not catch:")
    for mutant, missed in cover.misnamed(caught, named).items():
        others = " ".join(sorted(caught[mutant])) or "nothing"
        print(f"  {mutant}: {' '.join(sorted(missed))}; caught by {others}")
    by_check = cover.turned(caught)
    print("\nchecks that are the only one for no mutant, and how many they catch:")
    for check in cover.replaceable(caught, checks):
        print(f"  {check}: {len(by_check.get(check, ()))}")
    print(
        f"\n{len(cover.cover(by_check))} of {len(checks)} checks catch what all catch; "
        f"{len(cover.cover(caught))} of {len(caught)} mutants fail each check that any fails"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
