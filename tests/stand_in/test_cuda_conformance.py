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

from unidev_conformance.running.catalog import all_checks

if TYPE_CHECKING:
    from pathlib import Path

NEED_KERNELS = {
    "as_in_device.disjoint_copy_when_not_there", "containers.dict_list_tuple",
    "copy.disjoint_across_devices", "copy.disjoint_on_the_same_device", "copy.from_a_broadcast",
    "copy.from_a_view", "copy.gradient_reaches_the_source", "copy.non_blocking",
    "copy.writing_one_leaves_the_other", "create.each_dtype_on_each_device",
    "create.from_another_tensor", "create.from_numpy_without_aliasing", "create.on_each_device",
    "create.zero_d", "devices.each_listed_device_is_usable", "devices.survives_spawn",
    "dtypes.narrow", "host_data.put_dtype", "queued.behind_queued_work", "sequences.of_tensors",
    "smoke.probe_calibrated",
    "tracer.begin_comes_before_the_bytes_move", "tracer.each_call_of_the_framework",
    "values.tensors_convert_as_lists_do",
    "kernels.failure_is_reported", "bus.trace_is_what_the_profiler_records",
    "moving.while_it_trains",
}  # fmt: skip
"""They fill, convert or add on the GPU, or copy what is not contiguous there; so may a new check,
which then belongs here, too."""

UNSUPPORTED = {
    "errors.tensors_elsewhere", "pending.looking_computes_nothing", "pending.copies_are_computed",
    "pending.gradient_of_a_copy",
}  # fmt: skip
"""A tensor of PyTorch's own is on one device, and is computed at once."""

PROFILES = {"tensor": 90, "hardware": 1}
"""Each with a number of checks that is exceeded."""

BROKEN = {name: each for name, each in vars(broken_on_cuda).items() if isinstance(each, Mutant)}


def judged(
    folder: Path, backend: str, profile: str, checks: tuple[str, ...], **variables: str
) -> dict[str, str]:
    """The result of each check, in a fresh process."""
    assert torch.version.cuda
    report = folder / "report.json"
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [
            sys.executable, "-m", "unidev", "conform", backend, "--profile", profile,
            "--simulate", "0",
            "--only", ",".join(checks), "--report", str(report),
        ],
        env={**os.environ, "PYTHONPATH": path, **variables},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert report.exists(), done.stderr[-2000:]
    return {
        each["check"]: each["result"] for each in json.loads(report.read_text("utf-8"))["results"]
    }


@pytest.mark.parametrize("profile", PROFILES)
def test_pytorch_passes_what_needs_no_kernels(tmp_path, profile):
    checks = tuple(each.id for each in all_checks(profile) if each.id not in NEED_KERNELS)
    found = judged(tmp_path, "torch", profile, checks)
    assert len(found) > PROFILES[profile]
    assert found == {check: "unsupported" if check in UNSUPPORTED else "pass" for check in checks}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_backend_fails_each_check_that_it_names(tmp_path, name):
    mutant = BROKEN[name]
    found = judged(
        tmp_path, mutant.backend_name, mutant.profile, mutant.caught_by,
        UNIDEV_PLUGINS=f"broken_on_cuda:{name}", UNIDEV_DISABLED_PLUGINS="torch",
    )  # fmt: skip
    assert found == dict.fromkeys(mutant.caught_by, "fail")
