"""The conformance suite on PyTorch's CUDA build: what it judges without a kernel's values."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import on_stand_in  # noqa: F401

from unidev.conformance.running.catalog import all_checks

if TYPE_CHECKING:
    from pathlib import Path

NEED_KERNELS = {
    "as_in_device.disjoint_copy_when_not_there", "copy.disjoint_across_devices",
    "copy.disjoint_on_the_same_device", "copy.from_a_broadcast", "copy.from_a_view",
    "copy.gradient_reaches_the_source", "copy.writing_one_leaves_the_other",
    "create.each_dtype_on_each_device", "create.from_another_tensor", "create.on_each_device",
    "create.zero_d", "devices.each_listed_device_is_usable", "devices.survives_spawn",
    "queued.behind_queued_work", "smoke.probe_calibrated", "tracer.begin_comes_before_the_bytes_move",
    "values.tensors_convert_as_lists_do",
}  # fmt: skip
"""They fill, convert or add on the GPU, or copy what is not contiguous there. A new check that does
so, and nothing else to the GPU, belongs here, too."""


def test_every_check_of_tensors_that_needs_no_kernel_passes(tmp_path: Path):
    checks = {each.id for each in all_checks("tensor")}
    assert checks >= NEED_KERNELS
    chosen = ",".join(sorted(checks - NEED_KERNELS))
    report = tmp_path / "report.json"
    command = [
        sys.executable, "-m", "unidev", "conform", "torch", "--simulate", "0",
        "--only", chosen, "--report", str(report),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    results = json.loads(report.read_text())["results"]
    assert {each["check"] for each in results} == checks - NEED_KERNELS
    wrong = {each["check"]: each for each in results if each["result"] != "pass"}
    assert wrong == {}, done.stdout
    assert results[0]["devices"] == ["cpu:0", "gpu:0", "gpu:1"]
