"""The conformance suite, on the machine's own devices and on simulated ones."""

from __future__ import annotations

from itertools import product

import pytest
from plugin_suite import check_conforms


@pytest.mark.parametrize(
    ("profile", "count"), [*product(["tensor", "train"], [0, 4]), ("multi", 3), ("interop", 2)]
)
def test_the_backend_conforms(profile, count, tmp_path):
    check_conforms("paddle", profile, count, tmp_path)
