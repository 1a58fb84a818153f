"""``torch.testing._internal.distributed.distributed_test`` with the backend NCCL.

PyTorch's wheel has the tests without the file that runs them, test/distributed/
test_distributed_spawn.py, of which this is the part for a backend that spawns.
"""

from __future__ import annotations

import os
import tempfile

import torch

# Read when the module is imported, here and in the processes that each test starts.
os.environ["BACKEND"] = "nccl"
os.environ.setdefault("WORLD_SIZE", "2")
os.environ.setdefault("TEMP_DIR", tempfile.mkdtemp(prefix="distributed-test-"))

from torch.testing._internal.distributed.distributed_test import (  # noqa: E402
    DistributedTest,
    TestDistBackend,
)

HAS_TWO = torch.cuda.device_count() > 1
__test__ = True


class TestNccl(TestDistBackend, DistributedTest._DistTestBase):  # type: ignore[misc]
    """Every test, by two processes of its own."""

    def setUp(self) -> None:  # noqa: N802  unittest's name
        """Start the processes, or skip: without GPUs each would start and then say so."""
        if not HAS_TWO:
            self.skipTest("two GPUs")
        super().setUp()
        self._spawn_processes()


# Imported for the class above, and no tests of this file.
del TestDistBackend
