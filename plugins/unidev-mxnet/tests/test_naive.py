"""The suite sees through MXNet's own calls that are no copies, whatever they are called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from plugin_suite import judge

if TYPE_CHECKING:
    from pathlib import Path

DISJOINT = "copy.disjoint_on_the_same_device"
ACROSS = "copy.disjoint_across_devices"
APART = "copy.writing_one_leaves_the_other"
DIFFERS = "as_in_device.differs_from_copy_to"
LANDS = "copy.lands_on_the_device_asked_for"
GRADIENT = "copy.gradient_reaches_the_source"
BITS = "copy.values_bit_exact"
SAME = "as_in_device.same_object_when_there"


@pytest.mark.parametrize(
    ("name", "fails", "passes"),
    [
        ("as_in_ctx", {DISJOINT, APART, DIFFERS}, {ACROSS, LANDS, SAME, BITS}),
        ("copy", {LANDS, ACROSS}, {DISJOINT, DIFFERS, SAME, BITS}),
        ("copyto", set(), {DISJOINT, ACROSS, APART, LANDS, DIFFERS, SAME, BITS, GRADIENT}),
    ],
)
def test_a_naive_copy_fails_where_it_is_none(
    name: str, fails: set[str], passes: set[str], tmp_path: Path
) -> None:
    found = judge(
        f"naive_mxnet:{name}",
        (*fails, *passes),
        instead_of="mxnet",
        simulated=2,
        folder=tmp_path,
    )
    assert found == {**dict.fromkeys(fails, "fail"), **dict.fromkeys(passes, "pass")}
