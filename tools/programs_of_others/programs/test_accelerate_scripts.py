"""Accelerate's own scripts, each started by both launchers on two GPUs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

accelerate = pytest.importorskip("accelerate")
SCRIPTS = Path(accelerate.__file__).parent / "test_utils" / "scripts"
# Without test_notebook.py, which launches itself: the suite `accelerate` runs it.
NAMES = [
    "test_cli.py",
    "test_ddp_comm_hook.py",
    "test_distributed_data_loop.py",
    "test_merge_weights.py",
    "test_ops.py",
    "test_script.py",
    "test_sync.py",
    "external_deps/test_checkpointing.py",
    "external_deps/test_metrics.py",
    "external_deps/test_peak_memory_usage.py",
    "external_deps/test_performance.py",
    "external_deps/test_pippy.py",
]
LAUNCHERS = {
    "accelerate": ["accelerate.commands.launch", "--multi_gpu", "--num_processes", "2"],
    "torchrun": ["torch.distributed.run", "--standalone", "--nproc-per-node", "2"],
}
needs_two_gpus = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="two GPUs")


@needs_two_gpus
@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("name", NAMES)
def test_script(name: str, launcher: str) -> None:
    """Exit code 0."""
    command = [sys.executable, "-m", *LAUNCHERS[launcher]]
    done = subprocess.run(
        [*command, str(SCRIPTS / name)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:]
