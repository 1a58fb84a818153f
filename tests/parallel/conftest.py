"""NumPy with four simulated GPUs; threads that read ahead, and processes, of which none is left."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest
from marked_processes import all_gone, marked
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


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A variable that all processes of the test inherit; none with it is left afterwards."""
    value = uuid.uuid4().hex
    monkeypatch.setenv("RUN_MARK", value)
    yield value
    assert all_gone(value), marked(value)
