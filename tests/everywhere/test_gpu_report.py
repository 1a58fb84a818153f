"""``tools/gpu_report.py`` on the simulated devices of each framework that is installed here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from unidev.registry.discovery import backend_specs

TOOL = Path(__file__).parents[2] / "tools/gpu_report.py"
HERE = [name for name, spec in backend_specs().items() if find_spec(spec.framework) is not None]
STEPS = ("facts.machine", "conform.hardware", "examples.use_gpu")


@pytest.mark.parametrize("backend", HERE)
def test_the_report_can_be_tried_on_simulated_devices(backend, tmp_path) -> None:
    own = {name: value for name, value in os.environ.items() if not name.startswith("UNIDEV_")}
    words = [sys.executable, TOOL, tmp_path, "--backend", backend, "--short", "--simulate", "2"]
    done = subprocess.run(
        [*words, "--only", STEPS[1], "--only", STEPS[2]],
        env=own, cwd=tmp_path, capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr  # steps are left
    report = json.loads((tmp_path / "gpu-report.json").read_text(encoding="utf-8"))
    verdicts = {each["step"]: each["verdict"] for each in report["results"]}
    assert verdicts == dict(zip(STEPS, ("pass", "not run", "pass"), strict=True)), done.stderr
    assert report["stand_in"]
