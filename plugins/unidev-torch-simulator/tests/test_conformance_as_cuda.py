"""The conformance suite on GPUs that answer to ``cuda``; unidev-torch's tests judge ``sim``.

Late ones too: with them unidev's own copies, replicas, exchanges and ``prefetch`` lose each race.
"""

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


@pytest.mark.parametrize(
    ("profile", "count", "late"),
    [
        ("tensor", 3, ""),
        ("tensor", 3, "1"),
        ("train", 1, ""),
        ("multi", 3, "1"),
        ("interop", 3, ""),
    ],
)
def test_the_backend_conforms(profile: str, count: int, late: str, tmp_path: Path) -> None:
    left_out = ENDED_BY_A_FAILURE if profile == "multi" else ()
    check_conforms(
        "torch", profile, count, tmp_path, simulate_as="cuda", exclude=left_out, late=late
    )
