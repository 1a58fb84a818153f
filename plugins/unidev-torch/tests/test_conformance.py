"""The conformance suite, on the machine's own devices and on simulated ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from plugin_suite import check_conforms

if TYPE_CHECKING:
    from pathlib import Path


ENDED_BY_A_FAILURE = (
    "workers.killed", "workers.raising", "workers.early", "workers.stopped", "workers.checkpoints",
)  # fmt: skip
"""Each starts workers of its own. How NCCL's ranks fail is in ``test_distributed_failures``."""


FIRST = pytest.param("tensor", 3, marks=pytest.mark.first)
"""What `nox` judges: enough devices for every pair and a third."""


@pytest.mark.parametrize(
    ("profile", "count"),
    [FIRST, ("tensor", 0), ("train", 0), ("train", 3), ("multi", 3), ("interop", 2)],
)
def test_the_backend_conforms(profile: str, count: int, tmp_path: Path) -> None:
    check_conforms("torch", profile, count, tmp_path)


@pytest.mark.parametrize(
    ("profile", "count"), [("tensor", 3), ("train", 1), ("multi", 3), ("interop", 3)]
)
def test_it_conforms_on_gpus_that_answer_to_cuda(profile: str, count: int, tmp_path: Path) -> None:
    left_out = ENDED_BY_A_FAILURE if profile == "multi" else ()
    check_conforms("torch", profile, count, tmp_path, simulate_as="cuda", exclude=left_out)
