"""Accelerate's own scripts, each started by both launchers on two GPUs, and its third launcher."""

from __future__ import annotations

import socket
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


def _launched_from_a_notebook(before: str) -> subprocess.CompletedProcess[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = Path(__file__).with_name("launch_from_a_notebook.py")
    return subprocess.run(
        [sys.executable, str(program), before, str(port)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=280,
    )  # fmt: skip


@needs_two_gpus
@pytest.mark.parametrize("before", ["never", "looked"])
def test_notebook_launcher(before: str) -> None:
    """Both forks train, each on its GPU."""
    done = _launched_from_a_notebook(before)
    assert done.returncode == 0, done.stdout[-6000:]
    assert {"cuda:0 is one of 2", "cuda:1 is one of 2"} <= {*done.stdout.splitlines()}, done.stdout


@needs_two_gpus
def test_notebook_launcher_after_use() -> None:
    """CUDA's own error: a fork cannot have what its parent has begun to use."""
    done = _launched_from_a_notebook("used")
    assert done.returncode != 0
    assert "Cannot re-initialize CUDA in forked subprocess" in done.stdout, done.stdout[-6000:]
