"""The conformance suite, on the machine's own devices and on simulated ones."""

from __future__ import annotations

import pytest
from plugin_suite import check_conforms

FIRST = pytest.param("tensor", 3, marks=pytest.mark.first)
"""What `nox` judges: enough devices for every pair and a third."""


@pytest.mark.parametrize(
    ("profile", "count"),
    [FIRST, ("tensor", 0), ("train", 0), ("train", 3), ("multi", 3), ("interop", 2)],
)
def test_the_backend_conforms(profile, count, tmp_path):
    check_conforms("paddle", profile, count, tmp_path)
