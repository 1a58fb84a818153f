"""The suite sees through PyTorch's own calls that are no copies, whatever they are called."""

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
        ("to", {DISJOINT, APART, DIFFERS}, {BITS, GRADIENT, SAME}),
        ("as_tensor", {DISJOINT, APART, DIFFERS}, {BITS, GRADIENT, SAME}),
        ("detach", {DISJOINT, APART, GRADIENT}, {BITS, SAME}),
        ("detach_clone", {GRADIENT}, {DISJOINT, APART, DIFFERS, BITS, SAME}),
        ("clone", set(), {DISJOINT, APART, DIFFERS, BITS, SAME, GRADIENT}),
    ],
)
def test_a_naive_copy_fails_where_it_is_none(
    name: str, fails: set[str], passes: set[str], tmp_path: Path
) -> None:
    found = judge(
        f"naive_torch:{name}",
        (*fails, *passes),
        instead_of="torch",
        simulated=0,
        folder=tmp_path,
    )
    assert found == {**dict.fromkeys(fails, "fail"), **dict.fromkeys(passes, "pass")}
