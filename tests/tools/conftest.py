"""What a step of ``tools/gpu_report.py`` receives, on two simulated GPUs of NumPy's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hardware_report.setting import Setting

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def setting(two_gpus: None, tmp_path: Path) -> Setting:
    return Setting("numpy", True, tmp_path)
