"""The conformance suite, on the machine's own devices and on simulated ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from plugin_suite import check_conforms

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("profile", "count"),
    [
        ("tensor", 0),
        ("tensor", 4),
        ("train", 0),
        ("train", 3),
        ("multi", 3),
        ("interop", 1),
    ],
)
def test_the_backend_conforms(profile: str, count: int, tmp_path: Path) -> None:
    check_conforms("tensorflow", profile, count, tmp_path)
