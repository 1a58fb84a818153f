"""The matrix: what one row says, and what rows say together."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING

import pytest
from mutant_matrix import KEPT
from mutants import MUTANTS
from mutation import rows

from unidev_conformance.running.catalog import all_checks

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from pathlib import Path


def test_mutants_that_stay_exist_and_have_a_reason() -> None:
    kept = tomllib.loads(KEPT.read_text(encoding="utf-8"))["mutants"]
    assert set(kept) <= set(MUTANTS)
    assert all(kept.values())


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
