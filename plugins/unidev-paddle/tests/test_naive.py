"""The suite sees through Paddle's own calls that are no copies, whatever they are called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from plugin_suite import judge

if TYPE_CHECKING:
    from pathlib import Path

DISJOINT = "copy.disjoint_on_the_same_device"
APART = "copy.writing_one_leaves_the_other"
DIFFERS = "as_in_device.differs_from_copy_to"
GRADIENT = "copy.gradient_reaches_the_source"
BITS = "copy.values_bit_exact"
SAME = "as_in_device.same_object_when_there"


@pytest.mark.parametrize(
    ("name", "fails", "passes"),
    [
        ("to", {DISJOINT, APART, DIFFERS}, {SAME, BITS, GRADIENT}),
        ("cpu", {DISJOINT, APART, DIFFERS}, {SAME, BITS, GRADIENT}),
        ("detach", {DISJOINT, APART, GRADIENT}, {SAME, BITS}),
        ("to_with_copy", {GRADIENT}, {DISJOINT, APART, DIFFERS, SAME}),
        ("clone", set(), {DISJOINT, APART, DIFFERS, SAME, BITS, GRADIENT}),
    ],
)
def test_a_naive_copy_fails_where_it_is_none(
    name: str, fails: set[str], passes: set[str], tmp_path: Path
) -> None:
    found = judge(
        f"naive_paddle:{name}",
        (*fails, *passes),
        instead_of="paddle",
        simulated=0,
        folder=tmp_path,
    )
    assert found == {**dict.fromkeys(fails, "fail"), **dict.fromkeys(passes, "pass")}
