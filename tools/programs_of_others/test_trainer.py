"""Transformers' Trainer on a small random model: alone, by ``DataParallel`` and by ``torchrun``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

PROGRAM = str(Path(__file__).with_name("train_a_trainer.py"))
LAUNCHERS = {
    "one": [],
    "parallel": [],
    "torchrun": ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"],
}
needs_two_gpus = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="two GPUs")


def _trained(launcher: str, precision: str, folder: Path, *options: str) -> dict[str, Any]:
    command = [sys.executable, *LAUNCHERS[launcher], PROGRAM, launcher, precision, str(folder)]
    done = subprocess.run(
        [*command, *options],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:]
    report: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return report


@needs_two_gpus
@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_loss_decreases(launcher: str, precision: str, tmp_path: Path) -> None:
    """Training, an evaluation, and a checkpoint from which training goes on."""
    report = _trained(launcher, precision, tmp_path)
    assert report["gpus"] == (2 if launcher == "parallel" else 1)
    assert report["processes"] == (2 if launcher == "torchrun" else 1)
    assert report["losses"][-1] < report["losses"][0], report
    assert report["eval_loss"] < report["losses"][0]
    assert report["resumed_at"] == report["steps"]


@needs_two_gpus
@pytest.mark.parametrize("launcher", ["parallel", "torchrun"])
def test_losses_are_those_of_one_gpu(launcher: str, tmp_path: Path) -> None:
    """The same batches in all: two GPUs share what one has alone."""
    one = _trained("one", "fp32", tmp_path / "one")
    two = _trained(launcher, "fp32", tmp_path / "two")
    assert one["losses"] == pytest.approx(two["losses"], abs=1e-3)


@needs_two_gpus
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_fsdp(precision: str, tmp_path: Path) -> None:
    """Parameters in shards."""
    report = _trained("torchrun", precision, tmp_path, "fsdp")
    assert report["losses"][-1] < report["losses"][0], report
