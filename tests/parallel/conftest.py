"""NumPy with four simulated GPUs, and threads that read ahead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from reading import reading_threads

import unidev

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def gpus(nothing_loaded: None, monkeypatch: pytest.MonkeyPatch) -> list[unidev.Device]:
    """``gpu:0`` to ``gpu:3``."""
    monkeypatch.setenv("UNIDEV_SIMULATE", "4")
    monkeypatch.setenv("UNIDEV_BACKEND", "numpy")
    return unidev.try_all_gpus()


@pytest.fixture
def no_thread_is_left() -> Iterator[None]:
    """No thread reads ahead when the test has ended."""
    yield
    assert reading_threads() == []
