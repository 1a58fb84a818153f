"""The short form of ``nox -s attacks``, on NumPy."""

from __future__ import annotations

import bad_calls
import interruptions
import pytest

pytestmark = pytest.mark.slow


def test_no_bad_call_ends_in_anything_but_an_error_of_unidevs() -> None:
    assert list(bad_calls.findings("numpy", 500, seed=4)) == []


def test_ctrl_c_tears_nothing_and_leaves_nothing() -> None:
    found = list(interruptions.findings("numpy", 2, seed=1))
    assert len(found) == 3 * len(interruptions.PROGRAMS)
    assert [each for each in found if each is not None] == []
