"""The conformance suite on CUDA's devices, as far as it needs no kernels: PyTorch passes it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import broken_on_cuda
import pytest
from mutants.mutant import Mutant
from on_stand_in import torch

if TYPE_CHECKING:
    from pathlib import Path

CHECKS = (
    "errors.dtypes_of_devices", "statistics.memory", "statistics.peak", "statistics.first_use",
    "queued.read_at_once", "queued.source_changed_at_once", "queued.source_dropped_at_once",
    "queued.synchronized", "queued.side_stream", "pinned.pinned_once",
    "current.device_and_stream_stay", "contexts.looking_makes_none", "contexts.fork_after_looking",
    "scarcity.every_verb",
)  # fmt: skip
"""Of the profile ``tensor``. Others look at results of kernels, or strided copies."""

BROKEN = {name: each for name, each in vars(broken_on_cuda).items() if isinstance(each, Mutant)}


def judged(folder: Path, backend: str, checks: tuple[str, ...], **variables: str) -> dict[str, str]:
    """The result of each check, in a fresh process."""
    assert torch.version.cuda
    report = folder / "report.json"
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [
            sys.executable, "-m", "unidev", "conform", backend, "--simulate", "0",
            "--only", ",".join(checks), "--report", str(report),
        ],
        env={**os.environ, "PYTHONPATH": path, **variables},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert report.exists(), done.stderr[-2000:]
    return {
        each["check"]: each["result"] for each in json.loads(report.read_text("utf-8"))["results"]
    }


def test_pytorch_passes_what_needs_no_kernels(tmp_path):
    found = judged(tmp_path, "torch", CHECKS)
    assert found == dict.fromkeys(CHECKS, "pass")


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_backend_fails_each_check_that_it_names(tmp_path, name):
    mutant = BROKEN[name]
    found = judged(
        tmp_path, mutant.backend_name, mutant.caught_by,
        UNIDEV_PLUGINS=f"broken_on_cuda:{name}", UNIDEV_DISABLED_PLUGINS="torch",
    )  # fmt: skip
    assert found == dict.fromkeys(mutant.caught_by, "fail")
