"""The conformance suite, on the machine's own devices and on simulated ones."""

import pytest
from plugin_suite import check_conforms


@pytest.mark.parametrize(
    ("profile", "count"),
    [("tensor", 0), ("tensor", 1), ("tensor", 4), ("train", 0), ("train", 2), ("interop", 2)],
)
def test_the_backend_conforms(profile, count, tmp_path):
    check_conforms("jax", profile, count, tmp_path)
