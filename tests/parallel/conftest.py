"""NumPy with four simulated GPUs."""

from __future__ import annotations

import pytest

import unidev


@pytest.fixture
def gpus(nothing_loaded: None, monkeypatch: pytest.MonkeyPatch) -> list[unidev.Device]:
    """``gpu:0`` to ``gpu:3``."""
    monkeypatch.setenv("UNIDEV_SIMULATE", "4")
    monkeypatch.setenv("UNIDEV_BACKEND", "numpy")
    return unidev.try_all_gpus()
