"""The distributed programs of pytorch/examples, from a copy of the checkout, on what needs no data.

minGPT reads a text that is drawn, of fewer and smaller layers; the others run as they are.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SOURCE = Path(os.environ["PROGRAMS_SOURCE"]) / "distributed"
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node")
SMALL = (
    "data_config.path=text.txt", "data_config.truncate=1.0", "data_config.block_size=32",
    "gpt_config.n_layer=2", "gpt_config.n_head=2", "gpt_config.n_embd=32",
    "trainer_config.max_epochs=2", "trainer_config.batch_size=64",
    "trainer_config.save_every=1", "trainer_config.data_loader_workers=1",
)  # fmt: skip
PROGRAMS = {
    "ddp": ("ddp", *TORCHRUN, "2", "example.py"),
    "ddp_series_spawn": ("ddp-tutorial-series", "multigpu.py", "2", "1"),
    "ddp_series_torchrun": (
        "ddp-tutorial-series",
        *TORCHRUN,
        "2",
        "multigpu_torchrun.py",
        "2",
        "1",
    ),
    "ddp_series_multinode": ("ddp-tutorial-series", *TORCHRUN, "2", "multinode.py", "2", "1"),
    "fsdp2": ("FSDP2", *TORCHRUN, "2", "example.py"),
    "fsdp2_prefetching": ("FSDP2", *TORCHRUN, "2", "example.py", "--explicit-prefetching"),
    "fsdp2_mixed": ("FSDP2", *TORCHRUN, "2", "example.py", "--mixed-precision"),
    "fsdp2_dcp": ("FSDP2", *TORCHRUN, "2", "example.py", "--dcp-api"),
    "tensor_parallel": ("tensor_parallelism", *TORCHRUN, "2", "tensor_parallel_example.py"),
    "sequence_parallel": ("tensor_parallelism", *TORCHRUN, "2", "sequence_parallel_example.py"),
    "fsdp_tp": ("tensor_parallelism", *TORCHRUN, "4", "fsdp_tp_example.py"),
    "mingpt": ("minGPT-ddp/mingpt", *TORCHRUN, "2", "main.py", *SMALL),
    "rpc_ddp": ("rpc/ddp_rpc", "main.py"),
    "rpc_rnn": ("rpc/rnn", "main.py"),
}
TWICE = {"fsdp2", "fsdp2_dcp", "mingpt", "ddp_series_torchrun"}  # from the checkpoint of the first
needs_two_gpus = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="two GPUs")


@needs_two_gpus
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, tmp_path: Path) -> None:
    """Exit code 0, and no word of too few GPUs, after which these programs end as if well."""
    folder, *words = PROGRAMS[name]
    shutil.copytree(SOURCE / folder, tmp_path / "copy")
    (tmp_path / "copy" / "text.txt").write_text("To be, or not to be: that is it.\n" * 20)
    variables = dict(os.environ)
    if "4" in words:
        variables["UNIDEV_SIMULATE"] = "4"
    for _ in range(2 if name in TWICE else 1):
        done = subprocess.run(
            [sys.executable, *words], cwd=tmp_path / "copy", env=variables,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=280,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-6000:]
        assert "Unable to locate" not in done.stdout, done.stdout
