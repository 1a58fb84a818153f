"""What a step of ``tools/gpu_report.py`` says."""

from __future__ import annotations

from typing import Any


def text(outcome: Any) -> str:
    return "\n".join([outcome.reason or "", *outcome.remarks])
