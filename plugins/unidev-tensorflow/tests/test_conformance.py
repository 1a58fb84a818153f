"""The conformance suite, on the machine's own devices and on simulated ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from plugin_suite import check_conforms

if TYPE_CHECKING:
    from pathlib import Path


FIRST = pytest.param("tensor", 3, marks=pytest.mark.first)
"""What `nox` judges: enough devices for every pair and a third."""


@pytest.mark.parametrize(
    ("profile", "count"),
    [FIRST, ("tensor", 0), ("train", 0), ("train", 3), ("multi", 3), ("interop", 1)],
)
def test_the_backend_conforms(profile: str, count: int, tmp_path: Path) -> None:
    check_conforms("tensorflow", profile, count, tmp_path)
