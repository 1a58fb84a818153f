"""The conformance suite, on the machine's own devices and on simulated ones."""

import pytest
from plugin_suite import check_conforms

FIRST = pytest.param("tensor", 3, marks=pytest.mark.first)
"""What `nox` judges: enough devices for every pair and a third."""


@pytest.mark.parametrize(
    ("profile", "count"),
    [
        FIRST, ("tensor", 0), ("train", 0), ("train", 2),
        ("multi", 2),  # JAX compiles each program for each device
        ("interop", 2),
    ],
)  # fmt: skip
def test_the_backend_conforms(profile, count, tmp_path):
    check_conforms("jax", profile, count, tmp_path)
