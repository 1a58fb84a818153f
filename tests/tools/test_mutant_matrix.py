"""The matrix: what one row says, and what rows say together."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING

import pytest
from mutant_matrix import KEPT
from mutants import MUTANTS
from mutation import cover, rows
from mutation.rows import Row, Rows

from unidev_conformance.running.catalog import all_checks

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from pathlib import Path

CAUGHT = {
    "a": frozenset({"x.one", "x.two"}),
    "b": frozenset({"x.one", "x.two"}),
    "c": frozenset({"x.two"}),
    "d": frozenset({"x.two", "x.three"}),
}


def test_mutants_of_one_row_are_alike() -> None:
    assert cover.alike(CAUGHT) == [["a", "b"]]


def test_a_check_is_replaceable_unless_a_mutant_has_no_other() -> None:
    checks = ["x.one", "x.two", "x.three", "x.four"]
    assert cover.replaceable(CAUGHT, checks) == ["x.one", "x.three", "x.four"]


def test_a_cover_takes_what_adds_the_most() -> None:
    assert cover.cover(cover.turned(CAUGHT)) == ["x.two"]
    assert cover.cover(CAUGHT) == ["a", "d"]
    assert cover.cover({}) == []


def test_a_check_that_a_mutant_names_and_that_passes_is_told() -> None:
    named = {**CAUGHT, "c": frozenset({"x.two", "x.four"})}
    assert cover.misnamed(CAUGHT, named) == {"c": frozenset({"x.four"})}


def test_mutants_that_stay_exist_and_have_a_reason() -> None:
    kept = tomllib.loads(KEPT.read_text(encoding="utf-8"))["mutants"]
    assert set(kept) <= set(MUTANTS)
    assert all(kept.values())


def test_rows_are_read_back_by_the_next_run(tmp_path: Path) -> None:
    row = Row("a", 2, {"x.one": "fail"}, 3, ["x.two"], 1.5)
    Rows(tmp_path / "new" / "r.jsonl").add(row)
    assert Rows(tmp_path / "new" / "r.jsonl").found == {("a", 2): row}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "how", "caught"),
    [
        ("zero_d_becomes_one_d", "fail", {"copy.zero_d"}),
        ("hang", "hang", {"copy.zero_d", "copy.disjoint_on_the_same_device"}),
        ("crash", "crash", {"copy.zero_d", "copy.disjoint_on_the_same_device"}),
    ],
)
def test_a_row_has_what_fails_hangs_or_crashes_and_the_checks_after_it(
    name: str, how: str, caught: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "SILENCE_S", 5.0)
    wanted = {"devices.not_empty", "copy.disjoint_on_the_same_device", "copy.zero_d"}
    without = [check.id for check in all_checks() if check.id not in wanted]
    each = dataclasses.replace(MUTANTS[name], caught_by=())
    row = rows.Warm(each.plugin).row(each, tmp_path, without)
    assert row.caught == dict.fromkeys(caught, how)
    assert row.judged == len(wanted)
