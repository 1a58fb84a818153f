"""The suite sees through TensorFlow's own calls that are no copies, whatever they are called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from plugin_suite import judge

if TYPE_CHECKING:
    from pathlib import Path

DISJOINT = "copy.disjoint_on_the_same_device"
ACROSS = "copy.disjoint_across_devices"
DIFFERS = "as_in_device.differs_from_copy_to"
LANDS = "copy.lands_on_the_device_asked_for"
GRADIENT = "copy.gradient_reaches_the_source"
BITS = "copy.values_bit_exact"
SAME = "as_in_device.same_object_when_there"


@pytest.mark.parametrize(
    ("name", "fails", "passes"),
    [
        ("identity", {DISJOINT, ACROSS, DIFFERS}, {LANDS, SAME, BITS, GRADIENT}),
        ("constant", {DISJOINT, ACROSS, DIFFERS}, {SAME, BITS}),
        # Not of booleans, which cannot be added, nor of -0.0, which becomes 0.0.
        ("add_zero", {BITS, DISJOINT, ACROSS}, {DIFFERS, LANDS, SAME, GRADIENT}),
    ],
)
def test_a_naive_copy_fails_where_it_is_none(
    name: str, fails: set[str], passes: set[str], tmp_path: Path
) -> None:
    found = judge(
        f"naive_tensorflow:{name}",
        (*fails, *passes),
        instead_of="tensorflow",
        simulated=2,
        folder=tmp_path,
    )
    assert found == {**dict.fromkeys(fails, "fail"), **dict.fromkeys(passes, "pass")}
