"""``tools/gpu_report.py``, in its short form: each step passes, or needs kernels."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import on_stand_in  # noqa: F401  the file is left out where there is no stand-in
from gpu_steps import ROOT, planned, read_list

LIST = Path(__file__).with_name("needs_kernels.txt")


def test_each_step_of_the_short_report_passes_or_needs_kernels(tmp_path: Path) -> None:
    tool = str(ROOT / "tools/gpu_report.py")
    done = subprocess.run(
        [sys.executable, tool, str(tmp_path), "--short", "--stand-in", str(LIST)],
        capture_output=True, text=True, timeout=1800,
    )  # fmt: skip
    report = json.loads((tmp_path / "gpu-report.json").read_text(encoding="utf-8"))
    absent = read_list(LIST)
    wanted = {name: "not run" if name in absent else "pass" for name in planned(is_short=True)}
    shown = {name: each["verdict"] for name, each in report["results"].items()}
    assert shown == wanted, done.stderr
    assert (done.returncode, report["verdict"]) == (0, "pass"), done.stderr
    text = (tmp_path / "gpu-report.md").read_text(encoding="utf-8")
    assert "it shows nothing about any" in text
    assert text.count("Stand-in GPU") >= 2
