"""``tools/gpu_report.py``, in its short form: each step passes, or needs kernels."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import on_stand_in  # noqa: F401  the file is left out where there is no stand-in
from hardware_report import document, plan
from hardware_report.plan import steps_of

ROOT = Path(__file__).parents[2]
LIST = Path(__file__).with_name("needs_kernels.txt")


def test_each_step_of_the_short_report_passes_or_needs_kernels(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable, str(ROOT / "tools/gpu_report.py"), str(tmp_path), "--short",
            "--stand-in", str(LIST),
        ],
        capture_output=True, text=True, timeout=1800,
    )  # fmt: skip
    report = document.read(tmp_path / document.JSON_NAME)
    planned = [each.name for each in steps_of(is_short=True)]
    absent = plan.read_list(LIST, planned)
    wanted = {name: "not run" if name in absent else "pass" for name in planned}
    shown = {each["step"]: each["verdict"] for each in report["results"]}
    assert shown == wanted, done.stderr
    assert done.returncode == 0, done.stderr
    assert report["verdict"] == "pass"
    assert report["stand_in"]
    text = (tmp_path / document.MARKDOWN_NAME).read_text(encoding="utf-8")
    assert "it shows nothing about hardware" in text
    assert "| conform.hardware | not run | 0 | needs kernels |" in text
    assert json.dumps(report["machines"]).count("Stand-in GPU") >= 2
