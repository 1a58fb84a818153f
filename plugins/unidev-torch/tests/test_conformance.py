"""The conformance suite, on the machine's own devices and on simulated ones."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest
from plugin_suite import check_conforms

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("profile", "count"), [*product(["tensor", "train"], [0, 1, 4]), ("multi", 3), ("interop", 2)]
)
def test_the_backend_conforms(profile: str, count: int, tmp_path: Path) -> None:
    check_conforms("torch", profile, count, tmp_path)


@pytest.mark.parametrize("profile", ["tensor", "train", "multi", "interop"])
def test_it_conforms_on_gpus_that_answer_to_cuda(profile: str, tmp_path: Path) -> None:
    check_conforms("torch", profile, 3, tmp_path, simulate_as="cuda")
